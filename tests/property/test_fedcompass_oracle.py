"""FedCompass against a literal transcription of its authors' scheduler: tables that are changed in place, timers, and
one event after another. The clients here take as long as their steps, so that the scheduler has something to learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import floor, inf, nextafter
from typing import Any, ClassVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from afbs.algorithms.fedcompass import FedCompass
from afbs.interfaces import Connection
from afbs.types import Arrived, Decided, Dispatched, Instant, Lost, Order, Woken
from federation import drive, quadratic


class Paced(Connection):
    """Each step takes a client so many seconds, more or less; whole seconds, so that many arrive together."""

    ahead: ClassVar[bool] = True

    def __init__(self, seed: int, clients: int, loss: float, spread: float):
        rng = np.random.default_rng(seed)
        self.rng, self.loss, self.spread = rng, loss, spread
        self.seconds = rng.uniform(1.0, 8.0, clients)
        self.heap: list[tuple[float, int, bool, Order]] = []
        self.durations: dict[int, float] = {}

    def send(self, order: Order) -> None:
        takes = self.seconds[order.client] * order.steps * self.rng.uniform(1 - self.spread, 1 + self.spread)
        heappush(self.heap, (order.time + max(1, round(takes)), order.sequence, self.rng.random() < self.loss, order))

    def reachable(self, client: int) -> bool:
        return True

    def watch(self, client: int) -> None:
        raise NotImplementedError

    def receive(self, until: float) -> Instant | None:
        if not self.heap:
            return None
        time = self.heap[0][0]
        if time > until:
            return Instant(until)
        came = []
        while self.heap and self.heap[0][0] == time:
            came.append(heappop(self.heap))
        return Instant(time, [order for *_, lost, order in came if not lost], [o for *_, lost, o in came if lost])


@dataclass
class Authors:
    """client_info, arrival_group, group_buffer and general_buffer, as in the authors' scheduler."""

    settings: FedCompass
    clients: int
    w: Any
    speed: dict[int, float] = field(default_factory=dict)
    goa: dict[int, int] = field(default_factory=dict)
    arrival_group: dict[int, dict[str, Any]] = field(default_factory=dict)
    general: list[tuple[int, Any]] = field(default_factory=list)
    counter: int = 0
    t: int = 0

    def assign(self, client: int, now: float) -> int:
        if client not in self.speed:
            return self.settings.max_steps
        for steps, group in self.joins(client, now):
            self.arrival_group[group]["clients"].append(client)
            self.goa[client] = group
            return steps
        steps = self.creates(client, now)
        due = steps * self.speed[client]
        self.arrival_group[self.counter] = {
            "clients": [client],
            "arrived": [],
            "expected": now + due,
            "latest": now + due * self.settings.slack,
        }
        self.goa[client] = self.counter
        self.counter += 1
        return steps

    def joins(self, client: int, now: float) -> list[tuple[int, int]]:
        best, steps = -1, -1
        for group in sorted(self.arrival_group):
            possible = floor((self.arrival_group[group]["expected"] - now) / self.speed[client])
            if self.settings.min_steps <= possible <= self.settings.max_steps and possible >= steps:
                best, steps = group, possible
        return [(steps, best)] if best >= 0 else []

    def creates(self, client: int, now: float) -> int:
        assigned = -1
        for group in self.arrival_group.values():
            if now < group["latest"]:
                members = group["clients"] + [one for one, _ in group["arrived"]]
                fastest = min(self.speed[one] for one in members)
                estimate = group["latest"] + fastest * self.settings.max_steps
                steps = floor((estimate - now) / self.speed[client])
                if steps <= self.settings.max_steps:
                    assigned = max(assigned, steps)
        if 0 <= assigned < self.settings.min_steps:
            assigned = self.settings.min_steps
        return self.settings.max_steps if assigned < 0 else assigned

    def arrives(self, order: Order, delta: Any, now: float) -> list[int] | None:
        """The clients of the step that this makes, if any."""
        client, measured, tau = order.client, (now - order.time) / order.steps, self.t - order.version
        share = self.settings.pace_momentum
        known = client in self.speed
        self.speed[client] = (1 - share) * self.speed[client] + share * measured if known else measured
        group = self.goa.pop(client, None)
        if group is None:
            return self.aggregate([(client, tau, delta)])
        found = self.arrival_group[group]
        found["clients"].remove(client)
        if now > found["latest"]:
            self.general.append((client, (tau, delta)))
            if not found["clients"] and not found["arrived"]:
                del self.arrival_group[group]
                return None
            return self.closes(group) if not found["clients"] else None
        found["arrived"].append((client, (tau, delta)))
        return self.closes(group) if not found["clients"] else None

    def lost(self, client: int) -> list[int] | None:
        group = self.goa.pop(client, None)
        if group is None:
            return None
        found = self.arrival_group[group]
        found["clients"].remove(client)
        if found["clients"]:
            return None
        if not found["arrived"]:
            del self.arrival_group[group]
            return None
        return self.closes(group)

    def timers(self, now: float) -> list[int]:
        due = [group for group, found in self.arrival_group.items() if found["arrived"] and found["latest"] <= now]
        assert due
        return self.closes(*due)

    def closes(self, *groups: int) -> list[int]:
        ready = [*self.general, *(one for group in groups for one in self.arrival_group[group]["arrived"])]
        self.general = []
        for group in groups:
            self.arrival_group[group].update(arrived=[], expected=0.0, latest=0.0)
            if not self.arrival_group[group]["clients"]:
                del self.arrival_group[group]
        return self.aggregate([(client, tau, delta) for client, (tau, delta) in ready])

    def aggregate(self, ready: list[tuple[int, int, Any]]) -> list[int]:
        a, b = self.settings.slope, self.settings.grace
        for _, tau, delta in ready:
            s = {
                "constant": 1.0,
                "polynomial": (tau + 1.0) ** -self.settings.exponent,
                "hinge": 1.0 if tau <= b else 1.0 / (a * (tau - b) + 1.0),
            }[self.settings.discount]
            self.w = self.w - self.settings.server_lr * s / self.clients * delta
        self.t += 1
        return sorted(client for client, _, _ in ready)


compasses = st.builds(
    lambda least, more, **rest: FedCompass(min_steps=least, max_steps=least + more, **rest),
    least=st.integers(1, 4),
    more=st.integers(0, 8),
    slack=st.sampled_from([1.0, 1.2, 2.0]),
    pace_momentum=st.sampled_from([0.1, 0.9, 1.0]),
    server_lr=st.sampled_from([0.5, 1.0]),
    discount=st.sampled_from(["polynomial", "constant", "hinge"]),
    grace=st.integers(0, 2),
)


@settings(max_examples=300)
@given(
    compass=compasses,
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 8),
    in_flight=st.integers(1, 8),
    loss=st.sampled_from([0.0, 0.0, 0.2]),
    spread=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_it_schedules_and_steps_as_its_authors_do(
    compass: FedCompass, seed: int, clients: int, in_flight: int, loss: float, spread: float
) -> None:
    world = quadratic(clients, seed)
    connection = Paced(seed, clients, loss, spread)
    outcome = drive(compass, world, seed=seed, in_flight=in_flight, horizon=600.0, connection=connection)
    authors = Authors(compass, clients, world.start)
    expected: list[int] | None = None
    for event in outcome.events:
        if isinstance(event, Dispatched):
            assert authors.assign(event.order.client, event.time) == event.order.steps
        elif isinstance(event, Arrived):
            start, end, _ = outcome.trained[event.update.order.sequence]
            expected = authors.arrives(event.update.order, start - end, event.time)
        elif isinstance(event, Lost):
            expected = authors.lost(event.order.client)
        elif isinstance(event, Woken):
            overdue = [g["latest"] for g in authors.arrival_group.values() if g["arrived"]]
            assert min(overdue) <= event.time <= nextafter(min(overdue), inf)
            expected = authors.timers(event.time)
        elif isinstance(event, Decided):
            if expected is None:  # nobody is left to ask: everything that has arrived
                due = [name for name, group in authors.arrival_group.items() if group["arrived"]]
                expected = authors.closes(*due)
            assert sorted(update.client for update in event.step.used) == expected
            np.testing.assert_allclose(outcome.models[event.version], authors.w, rtol=1e-9, atol=1e-9)
            expected = None
    assert authors.t == len(outcome.steps)


def test_clients_of_unequal_speed_arrive_together() -> None:
    """Two clients, 1 and 4 seconds a step, 4 to 20 steps. Once both are known, the slow one takes its 5 steps in the
    20 seconds that the fast one needs for 20, and they arrive at the same moment, round after round."""

    class Exact(Paced):
        def __init__(self) -> None:
            super().__init__(0, 2, 0.0, 0.0)
            self.seconds = np.array([1.0, 4.0])

    outcome = drive(FedCompass(4, 20), quadratic(2, 0), in_flight=2, horizon=400.0, connection=Exact())
    together = [step for step in outcome.steps if len(step.used) == 2]
    assert len(together) >= 10
    for step in together[-8:]:
        fast, slow = sorted(step.used, key=lambda update: update.client)
        assert fast.time == slow.time
        assert fast.order.steps == 4 * slow.order.steps
        assert 4 <= slow.order.steps <= 5


def test_a_group_is_not_waited_for_longer_than_its_slack() -> None:
    """A client that suddenly takes ten times as long misses its group, and counts in the next one's step."""

    class Stumbles(Paced):
        def __init__(self) -> None:
            super().__init__(0, 3, 0.0, 0.0)
            self.seconds = np.array([1.0, 2.0, 2.0])

        def send(self, order: Order) -> None:
            takes = order.steps * self.seconds[order.client]
            if order.client == 2 and order.occurrence == 4:
                takes *= 10
            heappush(self.heap, (order.time + takes, order.sequence, False, order))

    outcome = drive(FedCompass(5, 20, slack=1.5), quadratic(3, 0), in_flight=3, horizon=600.0, connection=Stumbles())
    assert [event for event in outcome.events if isinstance(event, Woken)]
    jobs = {event.update.order: event.time for event in outcome.events if isinstance(event, Arrived)}
    (stumbled,) = [order for order in jobs if order.client == 2 and order.occurrence == 4]
    (step,) = [step for step in outcome.steps if stumbled in {update.order for update in step.used}]
    assert len(step.used) > 1
    assert max(update.time for update in step.used) > jobs[stumbled]
