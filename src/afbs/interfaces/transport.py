"""How clients are reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from afbs.interfaces.simulation import Availability, Latency
from afbs.types import ClientId, ClientInfo, Instant, Order, Vector


class Connection(ABC):
    """Carries orders to clients and brings back news. Virtual or real time is its affair alone."""

    ahead: ClassVar[bool] = False
    """Whether the future may be asked for before the present has been computed: virtual time."""

    @abstractmethod
    def send(self, order: Order) -> None: ...

    @abstractmethod
    def reachable(self, client: ClientId) -> bool:
        """Whether an order could be sent to this client now. Asking changes nothing."""

    @abstractmethod
    def watch(self, client: ClientId) -> None:
        """Report this client as returned once it can be reached again."""

    @abstractmethod
    def receive(self, until: float) -> Instant | None:
        """The next instant at which something happened, later than the last one; nothing later than `until`.

        If nothing happens by then, an empty instant at `until`. In real time there may be an empty instant
        sooner, so that its caller can look around. None if nothing is under way and nobody will return: virtual time
        would stand still.
        """

    def publish(self, version: int, params: Vector) -> None:  # noqa: B027 - virtual time has no use for it
        """This version of the model exists; orders that begin with it may follow. Real clients must be sent it."""

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        """Go on from `time`, where another connection ended: these orders are out, perhaps, and these clients watched.

        An order was written down before it was sent, so a real client may or may not have it.
        """
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Nothing more will be sent or asked."""


class Scene(NamedTuple):
    """What a transport is told of the run it serves. Simulated clients behave as `latency` and `availability` say;
    `work` is how many times the usual work an order asks for."""

    clients: Sequence[ClientInfo]
    latency: Latency
    availability: Availability
    seed: int
    work: Callable[[Order], float] | None = None


class Transport:
    """How clients are reached. A frozen dataclass of its settings."""

    live: ClassVar[bool] = False
    """Whether the clients are real: how long they take and when they are there is then their affair."""

    def connect(self, scene: Scene) -> Connection:
        """To simulated clients. Real ones are a `Fleet`, and `afbs.serve` is told how to reach it."""
        raise NotImplementedError
