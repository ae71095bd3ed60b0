"""One file a family of tables or figures; `EXHIBITS` has them all, in the order in which they are run."""

from afbs.reproduce.exhibits.ablations import ABLATIONS
from afbs.reproduce.exhibits.clustering import TABLE3
from afbs.reproduce.exhibits.cosine import FIG_COSINE
from afbs.reproduce.exhibits.curves import FIG_BUFFER, FIG_CLUSTERING, FIG_CURVES
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered
from afbs.reproduce.exhibits.fair import FAIR, FAIR_NEWER
from afbs.reproduce.exhibits.handling import TABLE5
from afbs.reproduce.exhibits.main import TABLE2, TABLE4
from afbs.reproduce.exhibits.participation import FIG_PARTICIPATION
from afbs.reproduce.exhibits.published import PUBLISHED
from afbs.reproduce.exhibits.settings import SETTINGS
from afbs.reproduce.exhibits.stale import FIG_STALE
from afbs.reproduce.exhibits.steps import STEPS

_TABLES = (TABLE2, TABLE3, TABLE4, TABLE5)
_FIGURES = (FIG_STALE, FIG_PARTICIPATION, FIG_COSINE, FIG_CURVES, FIG_CLUSTERING, FIG_BUFFER)
EXHIBITS: dict[str, Exhibit] = {
    exhibit.name: exhibit for exhibit in (*_TABLES, *_FIGURES, ABLATIONS, FAIR, SETTINGS, STEPS, FAIR_NEWER, PUBLISHED)
}

__all__ = ["EXHIBITS", "Exhibit", "Gathered"]
