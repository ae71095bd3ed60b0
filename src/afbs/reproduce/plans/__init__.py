"""One file a family of tables or figures; `PLANS` has them all, in the order in which they are run."""

from afbs.reproduce.plans.ablations import ABLATIONS
from afbs.reproduce.plans.clustering import TABLE3
from afbs.reproduce.plans.curves import FIG_BUFFER, FIG_CLUSTERING, FIG_CURVES
from afbs.reproduce.plans.main import TABLE2, TABLE4
from afbs.reproduce.plans.plan import Plan
from afbs.reproduce.plans.settings import SETTINGS

PLANS: dict[str, Plan] = {
    plan.name: plan for plan in (TABLE2, TABLE3, TABLE4, FIG_CURVES, FIG_CLUSTERING, FIG_BUFFER, ABLATIONS, SETTINGS)
}

__all__ = ["PLANS", "Plan"]
