"""A part of the clients leaves at one moment, for a time or for good."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, final

from annotated_types import Ge, Le

from afbs.interfaces import Availability
from afbs.latency._draw import own
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError


@final
@dataclass(frozen=True)
class Departures(Availability):
    """Each client, with probability `share`, leaves at `leave` seconds with the job it has and is back at `back_at`."""

    share: Annotated[float, Ge(0), Le(1)] = 0.5
    """The probability that a client is one of those that leave."""
    leave: Annotated[float, Ge(0)] = 864_000.0
    """When they leave, in seconds since the run began."""
    back_at: Annotated[float, Ge(0)] = inf
    """When they are back; inf is never."""

    def __post_init__(self) -> None:
        if self.back_at < self.leave:
            raise UserError(
                f"`availability.back_at` must be after `availability.leave` ({self.leave:g}), got {self.back_at:g}."
            )

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return self.back_at if self._leaves(client, key) and self.leave <= time < self.back_at else time

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        return self.leave if start < self.leave < finish and self._leaves(client, key) else None

    def _leaves(self, client: ClientInfo, key: Key) -> bool:
        return own(key, client).uniform() < self.share
