"""A small fleet in real time, for tests: clients are threads' timers, vectors stay with whoever trained them.

It outlives the server: a run that is killed leaves orders out, and the next one takes them over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

import numpy as np

from afbs.executors._rows import Rows
from afbs.interfaces import Algorithm, Connection, Session
from afbs.types import (
    Assignment,
    ClientId,
    ClientInfo,
    Evaluate,
    Evaluated,
    Fetch,
    Instant,
    Order,
    Shipped,
    Vector,
)
from federation import World


@dataclass
class Fleet:
    """Clients that take `lasts(order)` seconds.

    Orders in `loses` are never answered but reported lost; clients in `away` cannot be reached from a moment until
    another; `late` join at a moment; orders in `mute` are announced, but their vector cannot be had any more.
    """

    world: World
    algorithm: Algorithm[Any]
    lasts: Any
    loses: frozenset[int] = frozenset()
    mute: frozenset[int] = frozenset()
    away: Mapping[ClientId, tuple[float, float]] = field(default_factory=dict)
    late: Mapping[float, ClientInfo] = field(default_factory=dict)
    held: dict[int, Vector] = field(default_factory=dict)
    duals: dict[ClientId, Vector] = field(default_factory=dict)
    known: dict[int, Order] = field(default_factory=dict)
    news: Queue[tuple[str, Any]] = field(default_factory=Queue)
    trained: list[Order] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, order: Order, model: Vector) -> None:
        self.known[order.sequence] = order
        timer = threading.Timer(self.lasts(order), self._finish, (order, model))
        timer.daemon = True
        timer.start()

    def _finish(self, order: Order, model: Vector) -> None:
        if order.sequence in self.loses:
            self.news.put(("failed", order))
            return
        with self.lock:
            dual = self.duals.get(order.client, np.zeros_like(model))
            end, dual = self.world.train(self.algorithm.local, order.client, model, dual)
            self.duals[order.client] = dual
            self.held[order.sequence] = end if self.algorithm.ships == "end" else model - end
            self.trained.append(order)
        self.news.put(("delivered", order))


class FleetConnection(Connection):
    """News one by one, stamped when they are read. Time goes on where the last connection stopped."""

    def __init__(self, fleet: Fleet, pause: float = 0.01):
        self.fleet = fleet
        self.pause = pause
        self.models: dict[int, Vector] = {}
        self.began = time.monotonic()
        self.last = 0.0
        self.watched: set[ClientId] = set()
        self.joining = sorted(fleet.late)

    def now(self) -> float:
        return time.monotonic() - self.began

    def publish(self, version: int, params: Vector) -> None:
        self.models = {version: params.copy()}

    def send(self, order: Order) -> None:
        self.fleet.start(order, self.models[order.version])

    def reachable(self, client: ClientId) -> bool:
        first, until = self.fleet.away.get(client, (0.0, 0.0))
        return not first <= self.last < until

    def watch(self, client: ClientId) -> None:
        self.watched.add(client)

    def take_over(self, time_: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        self.began = time.monotonic() - time_
        self.last = time_
        self.watched = set(away)
        self.joining = [moment for moment in self.joining if moment > time_]
        waiting = list(self.fleet.news.queue)
        for order in orders:
            told = any(what == order for _, what in waiting)
            if order.sequence in self.fleet.held and not told:
                self.fleet.news.put(("delivered", order))
            elif order.sequence not in self.fleet.known:
                if order.version in self.models:
                    self.send(order)
                else:
                    self.fleet.news.put(("failed", order))
            elif order.sequence in self.fleet.loses and not told:
                self.fleet.news.put(("failed", order))

    def receive(self, until: float) -> Instant | None:
        deadline = min(until, self.now() + self.pause)
        back = [client for client in sorted(self.watched) if self.now() >= self.fleet.away.get(client, (0.0, 0.0))[1]]
        if back:
            self.watched -= set(back)
            return self._instant(until, returned=back)
        if self.joining and self.now() >= self.joining[0]:
            return self._instant(until, joined=[self.fleet.late[self.joining.pop(0)]])
        try:
            kind, order = self.fleet.news.get(timeout=max(0.0, deadline - self.now()))
        except Empty:
            moment = min(until, max(self.now(), np.nextafter(self.last, np.inf)))
            if moment >= until:
                self.last = until
            return Instant(moment)
        return self._instant(until, **{kind: [order]})

    def _instant(self, until: float, **news: Any) -> Instant:
        moment = min(until, max(self.now(), float(np.nextafter(self.last, np.inf))))
        self.last = moment
        return Instant(moment, **news)


class FleetSession(Session):
    """Vectors come from the fleet; the test set is one number: how far the first weight is from zero."""

    workers = 1
    depth = 100

    def __init__(self, fleet: Fleet):
        self.fleet = fleet
        self.store = Rows(len(fleet.world.start))
        self.tasks: list[Assignment] = []
        self.settled: list[tuple[int, bool]] = []

    def initial(self) -> Vector:
        return self.fleet.world.start.copy()

    def submit(self, task: Assignment) -> None:
        self.tasks.append(task)

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        done: list[Shipped | Evaluated] = []
        for task in self.tasks:
            if isinstance(task, Evaluate):
                loss = np.float64(self.store.get(task.base)[0])
                done.append(Evaluated(task.task, {"confusion": np.eye(2, dtype=np.int64), "loss": loss}, 0.0))
            else:
                assert isinstance(task, Fetch)
                vector = self.fleet.held.get(task.order.sequence)
                if vector is None or task.order.sequence in self.fleet.mute:
                    done.append(Shipped(task.task, "missing"))
                else:
                    self.store.get(task.out)[:] = vector
                    done.append(Shipped(task.task, "done"))
        self.tasks.clear()
        return done

    def settle(self, order: Order, kept: bool) -> None:
        self.settled.append((order.sequence, kept))

    def remembered(self) -> Mapping[ClientId, Vector]:
        return {}

    def restore(self, remembered: Mapping[ClientId, Vector]) -> None: ...

    def close(self) -> None: ...
