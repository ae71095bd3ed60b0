"""When a model is tested and on what, and what is known of a test that is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, final

from afbs.types import Evaluated, Score, Tallies


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


class Subject(NamedTuple):
    """What models are tested on, in so many parts, and when: the test set, or what the clients hold out.

    `event` is what its lines in the record are called; `combine` makes a score of what was found in all parts.
    """

    event: Literal["eval", "clients"]
    timetable: Timetable
    parts: int
    combine: Callable[[Sequence[Tallies]], Score]

    @property
    def local(self) -> bool:
        return self.event == "clients"


def due(subjects: Sequence[Subject], time: float, including: bool = False) -> list[tuple[float, Subject]]:
    """Which tests the moments that have passed ask for, in order."""
    passed = [(moment, subject) for subject in subjects for moment in subject.timetable.before(time, including)]
    return sorted(passed, key=lambda pair: pair[0])


@dataclass
class Exam:
    """One version on one subject, part by part."""

    version: int
    subject: Subject
    found: dict[int, Tallies] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        return self.subject.parts - len(self.found)

    def add(self, part: int, result: Evaluated) -> None:
        self.found[part] = result.totals

    def score(self) -> Score:
        """Parts come in any order, and are added up in theirs."""
        return self.subject.combine([self.found[part] for part in sorted(self.found)])
