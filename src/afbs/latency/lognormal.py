"""Many quick clients and a few slow ones: the logarithm of the duration is normal."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Annotated, Literal, final

from annotated_types import Ge, Le

from afbs.interfaces import Latency
from afbs.latency._draw import BRIEFEST, LONGEST, SHORTEST, SPREAD, standard_normal
from afbs.seeds import Key
from afbs.types import ClientInfo


@final
@dataclass(frozen=True)
class LogNormal(Latency):
    """Half the durations are above `median` seconds; `sigma` is the spread of their logarithm."""

    median: Annotated[float, Ge(BRIEFEST), Le(LONGEST)] = 2000.0
    """Seconds; half the durations are longer."""
    sigma: Annotated[float, Ge(0), Le(SPREAD)] = 1.0
    """The spread of their logarithm."""
    per: Literal["client", "job"] = "client"
    """Drawn once a client, which then always takes as long, or anew for each job."""

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        return max(SHORTEST, work * self.median * exp(self.sigma * standard_normal(key)))
