"""The fleet as the computing half sees it: vectors are fetched from nodes, everything else is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast, final

import numpy as np

from afbs.interfaces import Session
from afbs.transports.flower import messages
from afbs.transports.flower.exams import Exams
from afbs.transports.flower.wire import Failure, Heard
from afbs.types import Assignment, ClientId, Evaluate, Evaluated, Fetch, Order, Shipped, Vector

if TYPE_CHECKING:
    from afbs.transports.flower.fleet import FlowerFleet

_PAUSE = 0.05
"""Seconds between two looks while a vector is on its way: everybody waits for it."""


@final
class FlowerSession(Session):
    """What clients remember stays with them; kept here is only at the end of which order that was."""

    def __init__(self, fleet: FlowerFleet, local: Session):
        self._fleet = fleet
        self._local = local
        self.store = local.store
        self.workers = local.workers
        self.depth = local.depth
        self._done: list[Shipped | Evaluated] = []
        self._exams = Exams(fleet, self._done.append)
        self._fetching = 0
        self._evaluating = 0
        self._wanted: set[int] = set()
        self._brought: set[int] = set()

    def initial(self) -> Vector:
        return self._local.initial()

    def submit(self, task: Assignment) -> None:
        if isinstance(task, Evaluate) and task.local:
            self._exams.begin(task.task, self.store.get(task.base))
            return
        if not isinstance(task, Fetch):
            self._evaluating += 1
            self._local.submit(task)
            return
        fleet, order = self._fleet, task.order
        self._wanted.add(order.sequence)
        vector = fleet.orders.inbox.get(order.sequence)
        if vector is not None:
            self._ship(task, vector)
            return
        node = fleet.roster.node_of.get(order.client)
        if node is None:
            self._miss(task, "its client cannot be reached")
            return
        asked = fleet.clock.now()
        self._fetching += 1
        content = messages.fetch(fleet.roster.experiment, order.sequence)
        fleet.wire.ask(
            node,
            messages.FETCH,
            content,
            fleet.settings.fetch_seconds,
            lambda answer: self._fetched(task, answer, asked),
        )

    def _fetched(self, task: Fetch, answer: Heard, asked: float) -> None:
        fleet, order = self._fleet, task.order
        self._fetching -= 1
        if isinstance(answer, Failure):
            if answer.gone:
                fleet.attendance.gone(order.client)
            self._miss(task, answer.why)
            return
        try:
            if messages.done_of(answer).order != order.sequence:
                raise messages.BadMessageError("it answers another order")
            vector = messages.vector_of(answer, fleet.brief.size)
        except messages.BadMessageError as error:
            self._miss(task, f"a bad answer: {error}")
            return
        fleet.orders.uploads.fetched(fleet.clock.now() - asked)
        fleet.orders.moved.uploaded += vector.nbytes
        self._brought.add(order.sequence)
        self._ship(task, vector)

    def _ship(self, task: Fetch, vector: Vector) -> None:
        self.store.get(task.out)[:] = vector
        facts = self._fleet.orders.announced.get(task.order.sequence)
        shipped = Shipped(task.task, "done" if np.isfinite(vector).all() else "not finite")
        if facts is not None:
            shipped = shipped._replace(steps=facts.steps, samples=facts.samples, seconds=facts.seconds, told=facts.told)
        self._done.append(shipped)

    def _miss(self, task: Fetch, why: str) -> None:
        self._fleet.note(f"its vector did not come: {why}", client=task.order.client, order=task.order.sequence)
        self._done.append(Shipped(task.task, "missing"))

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        clock = self._fleet.clock
        limit = None if seconds is None else clock.now() + seconds
        while True:
            if self._fetching or self._exams.open:
                self._fleet.turn()
            if self._evaluating:
                found = self._local.collect(0.0)
                self._evaluating -= len(found)
                self._done.extend(found)
            busy = self._fetching or self._evaluating or self._exams.open
            if self._done or not busy or (limit is not None and clock.now() >= limit):
                break
            clock.sleep(_PAUSE)
        done = self._done.copy()
        self._done.clear()
        return done

    def settle(self, order: Order, kept: bool) -> None:
        fleet, number = self._fleet, order.sequence
        fleet.orders.settle(order, used=number in self._wanted, fetched=number in self._brought, kept=kept)
        fleet.connection.settled(order)
        self._wanted.discard(number)
        self._brought.discard(number)

    def remembered(self) -> Mapping[ClientId, Vector]:
        """Numbers of orders, as a checkpoint can hold them."""
        numbers = {client: np.array([order], np.int64) for client, order in sorted(self._fleet.orders.state_of.items())}
        return cast("Mapping[ClientId, Vector]", numbers)

    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        self._fleet.orders.state_of = {client: int(order[0]) for client, order in remembered.items()}

    def close(self) -> None:
        self._local.close()
