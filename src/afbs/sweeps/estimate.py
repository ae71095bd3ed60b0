"""How long the rest of a sweep will take: measured on what has been done of it, never guessed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import final

from afbs.sweeps.cells import Cell

_ENOUGH_SHARE = 0.05
_ENOUGH_SECONDS = 2.0
"""A cell under way tells what it will cost once this much of it is done: starting up costs, too."""


@final
class Meter:
    """Processor seconds of cells: what those that ended cost, and what those under way let expect."""

    def __init__(self, cells: Iterable[Cell], costs: Mapping[str, float], done: Iterable[str] = ()):
        self._cells = {cell.id: cell for cell in cells}
        self._begun: dict[str, tuple[float, float]] = {}
        self._share = dict.fromkeys(done, 1.0)
        known = {key: cost for key, cost in costs.items() if key in self._cells}
        self._costs = {key: cost for key, cost in known.items() if key in self._share}
        self._expected = {key: cost for key, cost in known.items() if key not in self._share}

    def going(self, key: str, share: float, cpu: float) -> None:
        first_share, first_cpu = self._begun.setdefault(key, (share, cpu))
        self._share[key] = share
        if share - first_share >= _ENOUGH_SHARE and cpu - first_cpu >= _ENOUGH_SECONDS:
            self._expected[key] = (cpu - first_cpu) / (share - first_share)

    def paused(self, key: str) -> None:
        """It will start again, and measure itself anew from there."""
        self._begun.pop(key, None)

    def ended(self, key: str, cpu: float) -> None:
        self._share[key] = 1.0
        self._costs[key] = cpu

    def share(self, key: str) -> float:
        return self._share.get(key, 0.0)

    def left(self, key: str) -> float | None:
        """Processor seconds that a cell still needs; None as long as nothing has been measured."""
        return self.lefts([key]).get(key)

    def lefts(self, keys: Iterable[str]) -> dict[str, float]:
        """The same of several; of none as long as nothing has been measured.

        A cell costs what it was itself measured at, else what cells of its arm did, else any, by virtual day."""
        known = {**self._expected, **self._costs}
        if not known:
            return {}
        daily: defaultdict[str, list[float]] = defaultdict(list)
        for key, cost in known.items():
            daily[self._cells[key].arm].append(cost / self._cells[key].days)
        means = {arm: fmean(costs) for arm, costs in daily.items()}
        mean = fmean(cost for costs in daily.values() for cost in costs)
        found = {}
        for key in keys:
            cell = self._cells[key]
            cost = known[key] if key in known else cell.days * means.get(cell.arm, mean)
            found[key] = cost * (1.0 - self.share(key))
        return found

    def total(self) -> float | None:
        """Processor seconds that all cells need that have not ended."""
        rest = [key for key in self._cells if self.share(key) < 1.0]
        lefts = self.lefts(rest)
        return sum(lefts.values()) if lefts or not rest else None
