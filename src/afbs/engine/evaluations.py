"""When the model is tested, and what is known of a test that is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from afbs.types import Evaluated, Score


@dataclass
class Exam:
    """One version on the test set, part by part."""

    version: int
    missing: int
    confusion: NDArray[np.int64] | None = None
    losses: dict[int, float] = field(default_factory=dict)

    def add(self, part: int, result: Evaluated) -> None:
        self.confusion = result.confusion if self.confusion is None else self.confusion + result.confusion
        self.losses[part] = result.loss
        self.missing -= 1

    def score(self) -> Score:
        assert self.confusion is not None
        total = max(1, int(self.confusion.sum()))
        loss = sum(self.losses[part] for part in sorted(self.losses))
        return Score(int(np.trace(self.confusion)) / total, loss / total, self.confusion)


@final
class Timetable:
    """The moments of a grid, and after every so many versions."""

    def __init__(self, grid: Iterable[float], every: int = 0):
        self._grid = deque(grid)
        self._every = every

    def before(self, time: float, including: bool = False) -> list[float]:
        """The moments that have passed when it is `time`; each is given once."""
        passed = []
        while self._grid and (self._grid[0] < time or (including and self._grid[0] <= time)):
            passed.append(self._grid.popleft())
        return passed

    def after(self, version: int) -> bool:
        """Whether a new version is tested at once."""
        return bool(self._every) and version % self._every == 0
