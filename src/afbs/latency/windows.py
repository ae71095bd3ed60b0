"""Clients that are there for a part of every day, each at its own hours."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Annotated, final

from annotated_types import Ge, Le

from afbs.interfaces import Availability
from afbs.latency._draw import LONGEST, own
from afbs.seeds import Key
from afbs.types import ClientInfo

_ROUNDING = 1e-6


@final
@dataclass(frozen=True)
class Windows(Availability):
    """There for `share` of every `period` seconds, each client at its own time; a job that outlasts this is lost.

    With `finishes` a client ends the job it has, even if its time is over.
    """

    period: Annotated[float, Ge(1), Le(LONGEST)] = 86_400.0
    """Seconds after which everything repeats."""
    share: Annotated[float, Ge(1e-6), Le(1)] = 0.5
    """Of every period in which a client is there."""
    finishes: bool = False
    """Whether a client ends the job it has, though its time is over."""

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        opens = self._opening(client, time, key)
        return time if time < opens + self.share * self.period else opens + self.period

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        if self.finishes or self.share == 1:
            return None
        closes = self._opening(client, start, key) + self.share * self.period
        return max(closes, start) if finish > closes else None

    def _opening(self, client: ClientInfo, time: float, key: Key) -> float:
        """When the window that `time` is in, or the one before it, opened."""
        phase = own(key, client).uniform() * self.period
        # At the very opening a rounding error must not put the client back into the window before.
        return floor((time - phase) / self.period + _ROUNDING) * self.period + phase
