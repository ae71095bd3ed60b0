"""Whole seconds, equally likely between two bounds: the paper's setting (0 to 6000 s, drawn once a client)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, final

from annotated_types import Ge, Le

from afbs.interfaces import Latency
from afbs.latency._draw import LONGEST
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError


@final
@dataclass(frozen=True)
class Uniform(Latency):
    """Equally likely between `low` and `high` seconds; whatever the client's data size. The paper's setting."""

    low: Annotated[int, Ge(0), Le(int(LONGEST))] = 0
    """Seconds, at least."""
    high: Annotated[int, Ge(1), Le(int(LONGEST))] = 6000
    """Seconds, at most."""
    per: Literal["client", "job"] = "client"
    """Drawn once a client, which then always takes as long, or anew for each job."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise UserError(f"`latency.low` must not be above `latency.high`, got {self.low} and {self.high}.")

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        return work * max(1.0, self.low + float(int(key.uniform() * (self.high - self.low + 1))))
