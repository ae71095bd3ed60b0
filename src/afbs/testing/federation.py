"""A small federation in plain numpy: clients with losses that can be differentiated by hand, and a driver that trains
whatever a plan dispatches and applies whatever it decides, one event after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.engine.answers import checked_facts, lent
from afbs.engine.plan import follow, plan
from afbs.interfaces import Algorithm, Availability, Connection, Latency, LocalRule
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import (
    Arrived,
    ClientId,
    ClientInfo,
    Decided,
    Dispatched,
    Event,
    Facts,
    Matrix,
    Memory,
    Order,
    Step,
    Update,
    Vector,
    Waiting,
)


@dataclass(frozen=True)
class Losses(Availability):
    """Loses each job with probability `share`, halfway through; `until` is when losses stop."""

    share: float
    until: float = float("inf")

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return time

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        return (start + finish) / 2 if start < self.until and key.uniform() < self.share else None


@dataclass(frozen=True)
class World:
    """Clients, the model they start from, and the gradient of each one's loss."""

    clients: list[ClientInfo]
    start: Vector
    gradient: Callable[[ClientId, Any], Any]
    steps: int = 3
    lr: float = 0.1

    def train(
        self, rule: LocalRule, client: ClientId, start: Vector, state: Vector, steps: int = 0
    ) -> tuple[Vector, Vector]:
        """What a client ends with, and its state then, after so many steps; 0 is as many as usual."""
        params = start
        for _ in range(steps or self.steps):
            extra = rule.gradient(params, start, state)
            slope = self.gradient(client, params)
            params = params - self.lr * (slope if extra is None else slope + extra)
        return params, rule.finish(state, start, params)


def infos(number: int, seed: int, clusters: int = 2) -> list[ClientInfo]:
    """Volumes are mostly squares, so that scores V/(τ+1)² often tie."""
    rng = np.random.default_rng([seed, 1])
    return [ClientInfo(i, int(rng.choice([1, 3, 4, 9, 16, 50])), int(rng.integers(clusters))) for i in range(number)]


def quadratic(number: int, seed: int, size: int = 3, dtype: type[np.floating] = np.float64) -> World:
    """Client i has the loss ½ Σ_j a_ij (θ_j − c_ij)²."""
    rng = np.random.default_rng([seed, 2])
    bend: NDArray[Any] = rng.uniform(0.5, 2.0, (number, size)).astype(dtype)
    centre: NDArray[Any] = rng.normal(0.0, 3.0, (number, size)).astype(dtype)
    start: NDArray[Any] = rng.normal(0.0, 1.0, size).astype(dtype)
    return World(infos(number, seed), start, lambda client, params: bend[client] * (params - centre[client]))


@dataclass
class Outcome:
    """All that happened: `models[v]` is version v, `memories[v]` what the server remembered with it."""

    models: list[Vector]
    memories: list[Memory]
    events: list[Event] = field(default_factory=list)
    duals: dict[ClientId, Vector] = field(default_factory=dict)
    trained: dict[int, tuple[Vector, Vector, Vector]] = field(default_factory=dict)
    """Of each order: the model it began with, the model it ended with, the client's state after it."""

    def rows(self, algorithm: Algorithm[Any], step: Step) -> Matrix:
        """What the clients of a step ship."""
        jobs = [self.trained[update.order.sequence] for update in step.used]
        return np.array([end if algorithm.ships == "end" else start - end for start, end, _ in jobs])

    @property
    def steps(self) -> list[Step]:
        return [event.step for event in self.events if isinstance(event, Decided)]

    @property
    def orders(self) -> list[Order]:
        return [event.order for event in self.events if isinstance(event, Dispatched)]

    @property
    def arrivals(self) -> list[Arrived]:
        return [event for event in self.events if isinstance(event, Arrived)]


def unchanged(version: int, time: float) -> float:
    """A learning rate for those who do not look at it."""
    return 0.1


def happens(
    algorithm: Algorithm[Any],
    clients: Sequence[ClientInfo],
    connection: Connection,
    *,
    in_flight: int,
    horizon: float,
    seed: int = 0,
    rate: Callable[[int, float], float] = unchanged,
    versions: int = 0,
    look: Callable[[Sequence[Update]], Facts] | None = None,
) -> Iterator[Event]:
    """What a plan says while this connection makes it go. Nothing may be said of waiting: time here is virtual."""
    decisions = plan(
        algorithm,
        clients,
        connection.reachable,
        in_flight=in_flight,
        horizon=horizon,
        seed=seed,
        rate=rate,
        versions=versions,
        look=look,
    )
    for event in follow(decisions, connection):
        assert not isinstance(event, Waiting)
        yield event


def drive(
    algorithm: Algorithm[Any],
    world: World,
    *,
    seed: int = 0,
    in_flight: int = 4,
    horizon: float = 80.0,
    latency: Latency | None = None,
    availability: Availability | None = None,
    connection: Connection | None = None,
) -> Outcome:
    """The whole run, one job after another; a job is trained from the model there was when it was dispatched.

    What an algorithm is lent it cannot write to, and the vectors of a step are spoilt once it has been applied.
    """
    if connection is None:
        connection = VirtualTime(world.clients, latency or Uniform(1, 20, "job"), availability or Always(), seed)
    rule = algorithm.local
    outcome = Outcome([lent(world.start)], [algorithm.begin(lent(world.start))])

    def look(updates: Sequence[Update]) -> Facts:
        jobs = [outcome.trained[update.order.sequence] for update in updates]
        changes = np.array([start - end for start, end, _ in jobs])
        seen = algorithm.look(outcome.memories[-1], outcome.models[-1], updates, lent(changes))
        return checked_facts(algorithm, seen)

    for event in happens(
        algorithm, world.clients, connection, in_flight=in_flight, horizon=horizon, seed=seed, look=look
    ):
        outcome.events.append(event)
        match event:
            case Dispatched(_, order):
                start = outcome.models[order.version]
                dual = outcome.duals.get(order.client, np.zeros_like(start))
                steps = order.steps or order.epochs * world.steps
                outcome.trained[order.sequence] = (start, *world.train(rule, order.client, start, dual, steps))
            case Arrived(_, update):
                outcome.duals[update.client] = outcome.trained[update.order.sequence][2]
            case Decided(_, version, step):
                assert version == len(outcome.models)
                memory, model = outcome.memories[-1], outcome.models[-1]
                if step.used:
                    rows = outcome.rows(algorithm, step)
                    memory, model = algorithm.apply(memory, model, step, lent(rows))
                    rows[:] = np.nan  # they were only lent
                outcome.memories.append({name: lent(np.asarray(kept)) for name, kept in memory.items()})
                outcome.models.append(lent(model))
            case _:
                pass
    return outcome
