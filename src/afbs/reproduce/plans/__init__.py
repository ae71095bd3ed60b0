"""One file a family of tables or figures; `PLANS` has them all, in the order in which they are run."""

from afbs.reproduce.plans.ablations import ABLATIONS
from afbs.reproduce.plans.clustering import TABLE3
from afbs.reproduce.plans.cosine import FIG_COSINE
from afbs.reproduce.plans.curves import FIG_BUFFER, FIG_CLUSTERING, FIG_CURVES
from afbs.reproduce.plans.fair import FAIR
from afbs.reproduce.plans.handling import TABLE5
from afbs.reproduce.plans.main import TABLE2, TABLE4
from afbs.reproduce.plans.participation import FIG_PARTICIPATION
from afbs.reproduce.plans.plan import Finds, Plan
from afbs.reproduce.plans.published import PUBLISHED
from afbs.reproduce.plans.settings import SETTINGS
from afbs.reproduce.plans.stale import FIG_STALE

_TABLES = (TABLE2, TABLE3, TABLE4, TABLE5)
_FIGURES = (FIG_STALE, FIG_PARTICIPATION, FIG_COSINE, FIG_CURVES, FIG_CLUSTERING, FIG_BUFFER)
PLANS: dict[str, Plan] = {plan.name: plan for plan in (*_TABLES, *_FIGURES, ABLATIONS, FAIR, SETTINGS, PUBLISHED)}

__all__ = ["PLANS", "Finds", "Plan"]
