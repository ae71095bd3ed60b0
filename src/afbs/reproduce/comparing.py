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
_ACCURACIES = ("last third", "final", "highest")
MEANING = (
    "Test accuracy in percent, the mean ± the standard deviation over seeds: the mean of all evaluations in the last "
    "third of a run, the last one, and the highest. Models sway from one evaluation to the next, so differences are of "
    "the first, seed by seed, with the p of Student's paired test.",
    "Local steps a step: how far a step of the server goes, as the steps of SGD that clients took for it, each counted "
    "by its update's weight.",
)
"""What a page says of such a table."""


def compared(
    arms: Mapping[str, Sequence[Evidence]], against: Mapping[str, str]
) -> tuple[list[str], list[list[str]], list[dict[str, Any]]]:
    """Heading, rows and numbers: each arm's accuracy, time and step, and how it differs from the arm it is against.

    The difference is that of the mean in the last third of the runs."""
    heading = ["", "seeds", *_ACCURACIES, "hours to target", "local steps a step", "against", "difference", "p"]
    rows, values = [], []
    for title, runs in arms.items():
        other = against.get(title, "")
        gap, p = paired(_levels(runs), _levels(arms.get(other, ())), "t")
        far = [steps for run in runs if (steps := run.heard.get("local_steps_a_step")) is not None]
        times = [run.time_to_target / _HOUR for run in runs if run.time_to_target is not None]
        late = "" if len(times) == len(runs) or not times else f" ({len(times)} of {len(runs)})"
        rows.append(
            [
                title,
                str(len(runs)) if runs else "not run",
                spread([100 * run.level for run in runs], 2),
                spread([100 * run.final for run in runs], 2),
                spread([100 * run.best for run in runs], 2),
                f"{spread(times, 1)}{late}",
                f"{fmean(far):.1f}" if far else NONE,
                other or NONE,
                signed(100 * gap, 2),
                NONE if math.isnan(p) else f"{p:.3g}",
            ]
        )
        values.append(
            {
                "arm": title,
                "seeds": len(runs),
                "last_third": _mean([run.level for run in runs]),
                "final": _mean([run.final for run in runs]),
                "highest": _mean([run.best for run in runs]),
                "hours_to_target": _mean(times),
                "reached_target": len(times),
                "local_steps_a_step": _mean(far),
                "against": other,
                "difference": None if math.isnan(gap) else round(gap, 6),
                "p": None if math.isnan(p) else float(f"{p:.4g}"),
            }
        )
    return heading, rows, values


def _levels(runs: Sequence[Evidence]) -> dict[int, float]:
    return {run.seed: run.level for run in runs}


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 6) if values else None
