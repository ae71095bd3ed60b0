"""Clients that vanish in the middle of a job, and come back."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Annotated, final

from annotated_types import Ge, Le

from afbs.interfaces import Availability
from afbs.seeds import Key
from afbs.types import ClientInfo


@final
@dataclass(frozen=True)
class Dropouts(Availability):
    """Each job is lost with `probability`, at any moment of it; the client is away for `away` seconds in the mean.

    How long is drawn from an exponential distribution; `away` = inf means for good.
    """

    probability: Annotated[float, Ge(0), Le(1)] = 0.1
    """That a job is lost."""
    away: Annotated[float, Ge(0)] = 3600.0
    """How long its client is away, in seconds and in the mean; inf is for good."""

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return time

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        if key.uniform(0) >= self.probability:
            return None
        return start + key.uniform(1) * (finish - start)

    def absence(self, client: ClientInfo, key: Key) -> float:
        return inf if self.away == inf else -log(1.0 - key.uniform(2)) * self.away
