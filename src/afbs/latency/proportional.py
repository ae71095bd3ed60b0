"""Computing takes as long as there are samples; then the update must be sent."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Annotated, Literal, final

from annotated_types import Ge, Le

from afbs.interfaces import Latency
from afbs.latency._draw import LONGEST, SHORTEST, SPREAD, standard_normal
from afbs.seeds import Key
from afbs.types import ClientInfo


@final
@dataclass(frozen=True)
class Proportional(Latency):
    """`seconds_per_example` for each sample plus `network` seconds; both are medians, with log-normal spreads."""

    seconds_per_example: Annotated[float, Ge(1e-9), Le(LONGEST)] = 10.0
    """For each sample, in the median."""
    speed_sigma: Annotated[float, Ge(0), Le(SPREAD)] = 0.5
    """The spread of the clients' speeds, in logarithms."""
    network: Annotated[float, Ge(0), Le(LONGEST)] = 60.0
    """Seconds for the network, in the median."""
    network_sigma: Annotated[float, Ge(0), Le(SPREAD)] = 0.5
    """The spread of that, in logarithms."""
    per: Literal["client", "job"] = "client"
    """Drawn once a client, which then always takes as long, or anew for each job."""

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        compute = client.examples * self.seconds_per_example * exp(self.speed_sigma * standard_normal(key, 0))
        network = self.network * exp(self.network_sigma * standard_normal(key, 1))
        return max(SHORTEST, work * compute + network)
