"""What a plan says, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from afbs.types.numbers import ClientId, Facts
from afbs.types.orders import ClientInfo, Order, Step, Update


class Dispatched(NamedTuple):
    time: float
    order: Order


class Arrived(NamedTuple):
    time: float
    update: Update


class Looked(NamedTuple):
    """What an algorithm asked of the content of updates, when `update` arrived, and was told."""

    time: float
    update: Update
    facts: Facts


class Lost(NamedTuple):
    time: float
    order: Order


class Left(NamedTuple):
    """The client was to be drawn and cannot be reached."""

    time: float
    client: ClientId


class Returned(NamedTuple):
    time: float
    client: ClientId


class Joined(NamedTuple):
    time: float
    client: ClientInfo


class Woken(NamedTuple):
    """The moment that the algorithm asked to be woken at has come."""

    time: float


class Decided(NamedTuple):
    """`step` turns version `version - 1` into `version`."""

    time: float
    version: int
    step: Step


class Stopped(NamedTuple):
    time: float
    reason: str


Event: TypeAlias = Dispatched | Arrived | Looked | Lost | Left | Returned | Joined | Woken | Decided | Stopped
"""What a plan says. Together they are enough to decide everything again."""


class Waiting(NamedTuple):
    """The plan can say no more until it is told what happens next, or that it is `until`."""

    until: float


class Instant(NamedTuple):
    """What a transport reports at once. Everything in it happened at `time`, in this order."""

    time: float
    delivered: Sequence[Order] = ()
    failed: Sequence[Order] = ()
    returned: Sequence[ClientId] = ()
    joined: Sequence[ClientInfo] = ()

    @property
    def quiet(self) -> bool:
        """Time has passed, and nothing happened."""
        return not (self.delivered or self.failed or self.returned or self.joined)
