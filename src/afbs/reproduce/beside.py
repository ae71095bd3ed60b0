"""The published figure beside ours: what a row of such a table says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from afbs.reproduce.found import Evidence
from afbs.reproduce.page import NONE
from afbs.reproduce.published import figures

BOTH = ("", "highest: paper", "ours", "difference", "to target: paper", "ours", "difference")
"""The heading of what `both_rows` tells."""
_DAY = 86_400


def spread(values: Sequence[float], places: int) -> str:
    """A mean, and with several seeds the standard deviation."""
    if not values:
        return NONE
    deviation = f" ± {stdev(values):,.{places}f}" if len(values) > 1 else ""
    return f"{fmean(values):,.{places}f}{deviation}"


def accuracy_row(paper: float | None, values: Sequence[float]) -> tuple[list[str], dict[str, Any]]:
    """In percent; the difference in points."""
    ours = [100 * value for value in values]
    mean = fmean(ours) if ours else None
    gap = None if mean is None or paper is None else mean - paper
    told = [NONE if paper is None else f"{paper:.2f}", spread(ours, 2) if ours else "not run", signed(gap, 2)]
    return told, {"paper": paper, **_numbers(ours), "difference": _round(gap, 4)}


def time_row(
    paper: float | None, values: Sequence[float | None], best: Sequence[float]
) -> tuple[list[str], dict[str, Any]]:
    """In virtual seconds; the difference in percent. None is a run that did not get there, but as far as its `best`."""
    ran = len(values)
    reached = [value for value in values if value is not None]
    mean = fmean(reached) if reached else None
    gap = None if mean is None or paper is None else 100 * (mean / paper - 1)
    ours = "not run" if not ran else spread(reached, 0) if reached else f"not reached ({100 * max(best):.1f} %)"
    if reached and len(reached) < ran:
        ours += f" ({len(reached)} of {ran})"
    told = [
        "not reached" if paper is None else f"{paper:,.0f}",
        ours,
        f"{signed(gap, 0)} %" if gap is not None else NONE,
    ]
    return told, {"paper": paper, **_numbers(reached), "reached": len(reached), "of": ran, "difference": _round(gap, 2)}


def both_rows(method: str, dataset: str, runs: Sequence[Evidence]) -> tuple[list[str], list[dict[str, Any]]]:
    """Tables 2 and 4, K = 1."""
    best = [run.best for run in runs]
    highest, numbers = accuracy_row(figures("2")[method, dataset, 1], best)
    timed, seconds = time_row(figures("4")[method, dataset, 1], [run.time_to_target for run in runs], best)
    return [*highest, *timed], [{"table": 2, **numbers}, {"table": 4, **seconds}]


def signed(value: float | None, places: int) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:+.{places}f}"


def remark(runs: Sequence[Evidence], days: float) -> str:
    """Where a run was shorter than the paper's."""
    words = []
    if runs and runs[0].horizon < days * _DAY:
        words.append(f"{runs[0].horizon / _DAY:g} of {days:g} days")
    ended = [run.virtual_seconds / _DAY for run in runs if run.froze]
    if ended:
        words.append(f"ended at day {fmean(ended):.1f}, learning rate below 1 %")
    return "; ".join(words)


def _numbers(values: Sequence[float]) -> dict[str, Any]:
    return {
        "ours": _round(fmean(values), 4) if values else None,
        "sd": _round(stdev(values), 4) if len(values) > 1 else None,
        "seeds": len(values),
    }


def _round(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places)
