"""The federation in which an algorithm is tried: as many clients as its buffer needs, and some to spare."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from afbs.interfaces import Algorithm, Availability, Connection, Latency
from afbs.latency.uniform import Uniform
from afbs.testing.federation import Losses, Outcome, World, drive, quadratic
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientId, ClientInfo, Instant, Order

SIZE = 6
"""How many numbers the model has."""
A = TypeVar("A")


def anew(algorithm: A) -> A:
    """The same settings, and nothing that was remembered besides."""
    return dataclasses.replace(algorithm) if dataclasses.is_dataclass(algorithm) else copy.deepcopy(algorithm)  # type: ignore[type-var]


class Case(NamedTuple):
    algorithm: Algorithm[Any]
    world: World
    in_flight: int
    seconds: float

    @classmethod
    def of(cls, algorithm: Algorithm[Any], seconds: float) -> Case:
        number = max(8, 2 * algorithm.awaits)
        world = quadratic(number + 1, seed=5, size=SIZE, dtype=np.float32)  # one of them joins late
        world = dataclasses.replace(world, clients=world.clients[:number])
        return cls(algorithm, world, max(4, algorithm.awaits), seconds)

    @property
    def number(self) -> int:
        return len(self.world.clients)

    @property
    def jobs(self) -> str:
        return f"{self.seconds:g} to {20 * self.seconds:g} s, and {self.in_flight} are under way"

    def latency(self, longest: int = 20) -> Latency:
        return Uniform(max(1, round(self.seconds)), max(1, round(longest * self.seconds)), "job")

    def alone(self) -> World:
        return quadratic(1, seed=0, size=SIZE, dtype=np.float32)

    def run(
        self,
        algorithm: Algorithm[Any] | None = None,
        *,
        world: World | None = None,
        seed: int = 4,
        in_flight: int = 0,
        horizon: float = 150,
        availability: Availability | None = None,
        connection: Connection | None = None,
    ) -> Outcome:
        return drive(
            algorithm or self.algorithm,
            world or self.world,
            seed=seed,
            in_flight=in_flight or self.in_flight,
            horizon=horizon * self.seconds,
            latency=self.latency(),
            availability=availability,
            connection=connection,
        )


class WithLateClients(Connection):
    """A simulation which a client joins at the third instant, and in which another is clustered anew."""

    def __init__(self, clients: Sequence[ClientInfo], late: ClientInfo, latency: Latency):
        self.inner = VirtualTime([*clients, late], latency, Losses(0.2), 3)
        self.late = late
        self.changed = dataclasses.replace(clients[0], cluster=5)
        self.instants = 0

    def send(self, order: Order) -> None:
        self.inner.send(order)

    def reachable(self, client: ClientId) -> bool:
        return self.inner.reachable(client)

    def watch(self, client: ClientId) -> None:
        self.inner.watch(client)

    def receive(self, until: float) -> Instant | None:
        self.instants += 1
        instant = self.inner.receive(until)
        if instant is None or self.instants != 3:
            return instant
        return instant._replace(joined=[self.late, self.changed])
