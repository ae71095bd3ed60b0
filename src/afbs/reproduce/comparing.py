"""Arms against each other over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from afbs.reproduce.beside import signed, spread
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import NONE
from afbs.sweeps.statistics import paired

_HOUR = 3600


def compared(
    arms: Mapping[str, Sequence[Evidence]], against: Mapping[str, str]
) -> tuple[list[str], list[list[str]], list[dict[str, Any]]]:
    """Heading, rows and numbers: each arm's accuracy and time, and its difference from the arm it is held against."""
    heading = ["", "seeds", "final", "highest", "hours to target", "against", "difference", "p"]
    rows, values = [], []
    for title, runs in arms.items():
        other = against.get(title, "")
        gap, p = paired(_final(runs), _final(arms.get(other, ())), "t")
        times = [run.time_to_target / _HOUR for run in runs if run.time_to_target is not None]
        late = "" if len(times) == len(runs) or not times else f" ({len(times)} of {len(runs)})"
        rows.append(
            [
                title,
                str(len(runs)) if runs else "not run",
                spread([100 * run.final for run in runs], 2),
                spread([100 * run.best for run in runs], 2),
                f"{spread(times, 1)}{late}",
                other or NONE,
                signed(100 * gap, 2),
                NONE if math.isnan(p) else f"{p:.3g}",
            ]
        )
        values.append(
            {
                "arm": title,
                "seeds": len(runs),
                "final": _mean([run.final for run in runs]),
                "highest": _mean([run.best for run in runs]),
                "hours_to_target": _mean(times),
                "against": other,
                "difference": None if math.isnan(gap) else round(gap, 6),
                "p": None if math.isnan(p) else float(f"{p:.4g}"),
            }
        )
    return heading, rows, values


def _final(runs: Sequence[Evidence]) -> dict[int, float]:
    return {run.seed: run.final for run in runs}


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 6) if values else None
