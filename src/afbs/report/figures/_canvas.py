"""A figure one column wide, and the words on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afbs.record.columns import Floats
from afbs.report.arms import Arm

WIDTH, HEIGHT = 3.45, 2.35


def new(height: float = HEIGHT) -> tuple[Any, Any]:
    """One pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def rows_of(number: int, height: float, sharex: bool = False) -> tuple[Any, list[Any]]:
    """Several, one below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 0.5 + height * number), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(number, 1, sharex=sharex)))


def legend(axes: Any, number: int) -> None:
    """What is what, unless there is only one."""
    if number > 1:
        axes.legend(ncols=1 if number < 5 else 2)


def text_of(label: str) -> str:
    """A dollar sign would begin a formula."""
    return label.replace("$", r"\$")


def first_of(arm: Arm) -> str:
    """The title of a figure about an arm's first run; with several seeds it says whose."""
    return text_of(arm.label) if arm.seeds == 1 else f"{text_of(arm.label)}, seed {arm.runs[0].seed}"


def clock_of(arms: Sequence[Arm]) -> str:
    return arms[0].runs[0].clock.capitalize()


def unit_of(longest: float) -> tuple[float, str]:
    """How many seconds it has, and what it is called."""
    for size, name in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if longest >= 3 * size:
            return size, name
    return 1.0, "s"


def last_of(column: Floats) -> float:
    """The largest number of a column, as far as they are known."""
    known = column[np.isfinite(column)]
    return float(known.max()) if len(known) else 0.0
