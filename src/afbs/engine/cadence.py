"""When the next checkpoint is due: soon where they are small, so that a kill costs little; never so often that a run is
busy with them."""

from __future__ import annotations

from time import perf_counter
from typing import final

_BYTES_A_SECOND = 1 << 20
"""What checkpoints may write on average: about a hundredth of what can be copied, digested and written in that time."""
_SOONEST_SECONDS = 1.0


@final
class Cadence:
    """At most so many seconds between two checkpoints, and less if `size`, the last one's bytes, allows it."""

    def __init__(self, most_seconds: float, size: int):
        self._most = most_seconds
        self.saved(size)

    def saved(self, size: int) -> None:
        self._due = perf_counter() + min(self._most, max(_SOONEST_SECONDS, size / _BYTES_A_SECOND))

    def due(self) -> bool:
        return perf_counter() > self._due
