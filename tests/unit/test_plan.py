"""The order of events, with a hand-written transport that reports what the test wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.interfaces import Algorithm, Connection
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.transports.simulated import VirtualTime
from afbs.types import (
    Arrived,
    ClientInfo,
    Decided,
    Dispatched,
    Event,
    Instant,
    Left,
    Lost,
    Order,
    Returned,
    Stopped,
    Training,
    Woken,
)
from federation import happens

CLIENTS = [ClientInfo(i, 10) for i in range(6)]


class Scripted(Connection):
    """Takes `lasts[n]` seconds for the n-th order, or the last entry for ever after; loses the orders in `loses`."""

    def __init__(self, lasts: Sequence[float], loses: Sequence[int] = (), absent: dict[int, float] | None = None):
        self.lasts, self.loses, self.absent = lasts, loses, absent or {}
        self.under_way: dict[float, list[Order]] = {}
        self.watched: list[int] = []
        self.now = 0.0

    def send(self, order: Order) -> None:
        lasts = self.lasts[min(order.sequence, len(self.lasts) - 1)]
        self.under_way.setdefault(order.time + lasts, []).append(order)

    def reachable(self, client: int) -> bool:
        return self.now >= self.absent.get(client, 0.0)

    def watch(self, client: int) -> None:
        self.watched.append(client)

    def receive(self, until: float) -> Instant | None:
        back = {client: self.absent.get(client, 0.0) for client in self.watched}
        returns = [moment for moment in back.values() if self.now < moment < float("inf")]
        if not self.under_way and not returns:
            return None
        coming = min([*self.under_way, *returns])
        if coming > until:
            self.now = until
            return Instant(until)
        self.now = coming
        orders = self.under_way.pop(self.now, [])
        return Instant(
            self.now,
            [order for order in orders if order.sequence not in self.loses],
            [order for order in orders if order.sequence in self.loses],
            [client for client, moment in back.items() if moment == self.now],
        )


def events(
    algorithm: Algorithm[Any], connection: Connection, horizon: float = 100.0, in_flight: int = 3, **more: Any
) -> list[Event]:
    return list(happens(algorithm, CLIENTS, connection, in_flight=in_flight, horizon=horizon, **more))


def kinds(found: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in found]


def test_everything_that_arrives_at_once_is_received_before_anyone_is_dispatched() -> None:
    found = events(FedAsync(), Scripted([10]), horizon=10)
    assert kinds(found) == [*["Dispatched"] * 3, *["Arrived", "Decided"] * 3, *["Dispatched"] * 3, "Stopped"]
    assert [event.order.version for event in found if isinstance(event, Dispatched)] == [0, 0, 0, 3, 3, 3]


def test_updates_of_one_instant_see_the_versions_made_by_those_before_them() -> None:
    found = events(FedAsync(), Scripted([10]), horizon=10)
    assert [event.update.staleness for event in found if isinstance(event, Arrived)] == [0, 1, 2]


def test_a_buffer_closes_at_its_size_in_the_middle_of_an_instant() -> None:
    found = events(FedBuff(buffer_size=2), Scripted([10]), horizon=10)
    assert kinds(found)[3:7] == ["Arrived", "Arrived", "Decided", "Arrived"]


def test_a_client_that_waits_in_a_buffer_is_not_asked_again() -> None:
    found = events(FedBuff(buffer_size=6), Scripted([10]), horizon=25, in_flight=4)
    asked = [event.order.client for event in found if isinstance(event, Dispatched) and event.time < 20]
    assert sorted(asked) == [0, 1, 2, 3, 4, 5]


def test_an_asynchronous_client_may_be_asked_again_at_once() -> None:
    found = list(happens(FedAsync(), CLIENTS[:1], Scripted([10]), in_flight=1, horizon=35))
    orders = [event.order for event in found if isinstance(event, Dispatched)]
    assert [(order.client, order.occurrence, order.time) for order in orders] == [(0, n, 10.0 * n) for n in range(4)]


def test_a_lost_client_is_idle_again_and_its_place_is_filled() -> None:
    found = events(FedBuff(buffer_size=2), Scripted([10, 20], loses=[0]), horizon=10)
    assert kinds(found) == [*["Dispatched"] * 3, "Lost", "Dispatched", "Stopped"]
    assert [event.order.sequence for event in found if isinstance(event, Lost)] == [0]


def test_a_round_in_which_everybody_is_lost_is_followed_by_another_from_the_same_version() -> None:
    found = events(FedAvg(), Scripted([10], loses=[0, 1, 2]), horizon=20)
    assert kinds(found) == [
        *["Dispatched"] * 3,
        *["Lost"] * 3,
        *["Dispatched"] * 3,
        *["Arrived"] * 3,
        "Decided",
        *["Dispatched"] * 3,
        "Stopped",
    ]
    assert {event.order.version for event in found[6:9] if isinstance(event, Dispatched)} == {0}


def test_what_happens_at_the_horizon_still_counts_and_what_comes_after_does_not() -> None:
    assert isinstance(events(FedAsync(), Scripted([10, 20, 30]), horizon=20)[-1], Stopped)
    arrived = [event.time for event in events(FedAsync(), Scripted([10, 20, 30, 99]), 20) if isinstance(event, Arrived)]
    assert arrived == [10, 20]


def test_a_run_that_nobody_can_go_on_with_ends_after_using_what_has_arrived() -> None:
    gone = dict.fromkeys(range(3, 6), float("inf"))
    found = events(FedBuff(buffer_size=5), Scripted([10, 20], absent=gone), horizon=25)
    steps = [event for event in found if isinstance(event, Decided)]
    assert [len(event.step.used) for event in steps] == [3]
    nobody = Scripted([10], absent=dict.fromkeys(range(6), float("inf")))
    *left, last = events(FedBuff(), nobody, horizon=25)
    assert {event.client for event in left if isinstance(event, Left)} == set(range(6))
    assert len(left) == 6
    assert last == Stopped(0.0, "stalled")


def test_a_client_that_comes_back_is_asked() -> None:
    absent = {**dict.fromkeys(range(5), float("inf")), 5: 7.0}
    found = events(FedAsync(), Scripted([10], absent=absent), horizon=20)
    assert kinds(found[:6]) == ["Left"] * 6
    assert found[6] == Returned(7.0, 5)
    first = found[7]
    assert isinstance(first, Dispatched)
    assert (first.time, first.order.client) == (7.0, 5)


def test_a_client_that_cannot_be_reached_is_said_to_have_left_once() -> None:
    """And when it has returned and left again, again."""

    class Flickering(Scripted):
        """Client 5 is there in every second ten seconds."""

        def reachable(self, client: int) -> bool:
            return client != 5 or self.now // 10 % 2 == 1

        def receive(self, until: float) -> Instant | None:
            instant = super().receive(until)
            if instant is None or not (self.watched and self.reachable(5)):
                return instant
            return instant._replace(returned=[self.watched.pop()])

    found = events(FedAsync(), Flickering([10]), horizon=60, in_flight=6)
    passing = [(type(event), event.time) for event in found if isinstance(event, Left | Returned)]
    assert passing == [(Left, 0), (Returned, 10), (Left, 20), (Returned, 30), (Left, 40), (Returned, 50), (Left, 60)]
    assert [event.time for event in found if isinstance(event, Dispatched) and event.order.client == 5] == [10, 30, 50]


def test_a_run_may_end_after_so_many_versions() -> None:
    found = events(FedAsync(), Scripted([10]), versions=4)
    assert [event.version for event in found if isinstance(event, Decided)] == [1, 2, 3, 4, 5, 6]
    assert found[-1] == Stopped(20.0, "versions")
    assert not isinstance(found[-2], Dispatched)


def test_an_order_carries_the_rate_of_its_version_and_moment() -> None:
    found = events(FedAsync(), Scripted([10]), horizon=20, rate=lambda version, time: 100.0 * version + time)
    orders = [event.order for event in found if isinstance(event, Dispatched)]
    assert {(order.version, order.rate) for order in orders} == {(0, 0.0), (3, 310.0), (6, 620.0)}
    decayed = Training(lr=0.5, lr_decay=0.5).rate
    assert [decayed(version, 7.0) for version in range(3)] == [0.5, 0.25, 0.125]


def test_a_deadline_empties_a_buffer_so_many_seconds_after_its_first_update() -> None:
    """Orders 0, 1, 2 take 4, 6, 30 seconds: the deadline of the update of 4 s is 4 + 5 s."""
    found = events(FedBuff(buffer_size=3, deadline=5.0), Scripted([4, 6, 30]), horizon=20, in_flight=3)
    steps = [event for event in found if isinstance(event, Decided)]
    assert [(event.time, len(event.step.used)) for event in steps] == [(9.0, 2)]
    assert [event.time for event in found if isinstance(event, Woken)] == [9.0]


def test_a_buffer_that_filled_up_in_time_is_not_woken() -> None:
    found = events(FedBuff(buffer_size=2, deadline=5.0), Scripted([4, 6, 99]), horizon=20, in_flight=2)
    assert [event.time for event in found if isinstance(event, Decided)] == [6.0]
    assert not [event for event in found if isinstance(event, Woken)]


@pytest.mark.parametrize("deadline", [4.0, 16.0, 16.5, 1e9])
def test_a_deadline_at_or_after_the_horizon_lets_the_run_end_there(deadline: float) -> None:
    """The first update comes at 4 s, so the second of these deadlines is the horizon itself."""
    found = events(FedBuff(buffer_size=3, deadline=deadline), Scripted([4, 30]), horizon=20, in_flight=3)
    assert found[-1] == Stopped(20.0, "horizon")
    times = [event.time for event in found if isinstance(event, Decided)]
    assert times == [4.0 + deadline] * (deadline <= 16.0)


def test_what_is_too_stale_is_dropped_by_the_next_step_and_says_why() -> None:
    """Steps at 1 s (orders 0, 1), at 3 s (3, 4) and at 23 s (5, 6); order 2 comes at 9 s and is two versions old."""
    found = events(FedBuff(buffer_size=2, max_staleness=1), Scripted([1, 1, 9, 2, 2, 20]), horizon=25)
    steps = [event.step for event in found if isinstance(event, Decided)]
    orders = [[[update.order.sequence for update in part] for part in (step.used, step.dropped)] for step in steps]
    assert orders == [[[0, 1], []], [[3, 4], []], [[5, 6], [2]]]
    assert [step.why for step in steps] == [(), (), ("in time", "in time", "too stale")]


def test_a_round_ends_at_its_quorum_and_those_it_loses_then_are_not_awaited() -> None:
    """Orders 0 and 1 arrive at 10 s, and order 2 is lost in the same instant: the next round is asked at once."""
    found = events(FedAvg(quorum=2), Scripted([10], loses=[2]), horizon=10)
    assert kinds(found) == [
        *["Dispatched"] * 3,
        *["Arrived"] * 2,
        "Decided",
        "Lost",
        *["Dispatched"] * 3,
        "Stopped",
    ]


def test_the_plan_is_decided_no_further_than_it_is_read() -> None:
    transport = Scripted([10])
    reading = happens(FedAsync(), CLIENTS, transport, in_flight=3, horizon=1e12)
    for _ in range(4):
        next(reading)
    assert transport.now == 10


@pytest.mark.parametrize("algorithm", [FedAvg(), FedAsync(), FedBuff(buffer_size=2)])
def test_counters_belong_to_the_engine(algorithm: Algorithm[Any]) -> None:
    found = events(algorithm, Scripted([10, 7, 12, 5]), horizon=200)
    orders = [event.order for event in found if isinstance(event, Dispatched)]
    assert [order.sequence for order in orders] == list(range(len(orders)))
    arrivals = [event.update.sequence for event in found if isinstance(event, Arrived)]
    assert arrivals == list(range(len(arrivals)))
    for client in range(6):
        mine = [order.occurrence for order in orders if order.client == client]
        assert mine == list(range(len(mine)))


def test_what_a_step_drops_changes_nothing_about_who_is_asked_next() -> None:
    """Algorithms that buffer alike see the same arrivals, so that comparing them compares nothing else."""

    def schedule(algorithm: Algorithm[Any]) -> list[Event]:
        clients = [ClientInfo(i, 1 + i * i % 40) for i in range(30)]
        connection = VirtualTime(clients, Uniform(), Always(), 1)
        found = happens(algorithm, clients, connection, in_flight=12, horizon=100_000, seed=1)
        return [event for event in found if not isinstance(event, Decided)]

    reference = schedule(FedBuff(buffer_size=5))
    assert schedule(AFBS(buffer_size=5)) == reference
    assert schedule(AFBS(buffer_size=5, drop="random")) == reference
