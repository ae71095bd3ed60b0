"""The order of events, with a hand-written transport that reports what the test wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.engine.plan import plan
from afbs.interfaces import Algorithm, Transport
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.transports.simulated import Simulated
from afbs.types import Arrived, ClientInfo, Decided, Dispatched, Event, Instant, Lost, Order, Stopped

CLIENTS = [ClientInfo(i, 10) for i in range(6)]


class Scripted(Transport):
    """Takes `lasts[n]` seconds for the n-th order, or the last entry for ever after; loses the orders in `loses`."""

    def __init__(self, lasts: Sequence[float], loses: Sequence[int] = (), absent: dict[int, float] | None = None):
        self.lasts, self.loses, self.absent = lasts, loses, absent or {}
        self.under_way: dict[float, list[Order]] = {}
        self.now = 0.0

    def send(self, order: Order) -> None:
        lasts = self.lasts[min(order.sequence, len(self.lasts) - 1)]
        self.under_way.setdefault(order.time + lasts, []).append(order)

    def reachable(self, client: int) -> bool:
        return self.now >= self.absent.get(client, 0.0)

    def receive(self) -> Instant | None:
        returns = [back for back in self.absent.values() if self.now < back < float("inf")]
        if not self.under_way and not returns:
            return None
        self.now = min([*self.under_way, *returns])
        orders = self.under_way.pop(self.now, [])
        return Instant(
            self.now,
            [order for order in orders if order.sequence not in self.loses],
            [order for order in orders if order.sequence in self.loses],
            [client for client, back in self.absent.items() if back == self.now],
        )


def events(algorithm: Algorithm[Any], transport: Transport, horizon: float = 100.0, in_flight: int = 3) -> list[Event]:
    return list(plan(algorithm, CLIENTS, transport, in_flight=in_flight, horizon=horizon, seed=0))


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
    found = list(plan(FedAsync(), CLIENTS[:1], Scripted([10]), in_flight=1, horizon=35, seed=0))
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
    transport = Scripted([10, 20], absent=gone)
    found = list(plan(FedBuff(buffer_size=5), CLIENTS, transport, in_flight=3, horizon=25, seed=0))
    steps = [event for event in found if isinstance(event, Decided)]
    assert [len(event.step.used) for event in steps] == [3]
    nobody = Scripted([10], absent=dict.fromkeys(range(6), float("inf")))
    assert list(plan(FedBuff(), CLIENTS, nobody, in_flight=3, horizon=25, seed=0)) == [Stopped(0.0, "stalled")]


def test_a_client_that_comes_back_is_asked() -> None:
    absent = {**dict.fromkeys(range(5), float("inf")), 5: 7.0}
    found = events(FedAsync(), Scripted([10], absent=absent), horizon=20)
    first = found[0]
    assert isinstance(first, Dispatched)
    assert (first.time, first.order.client) == (7.0, 5)


def test_the_plan_is_decided_no_further_than_it_is_read() -> None:
    transport = Scripted([10])
    reading = plan(FedAsync(), CLIENTS, transport, in_flight=3, horizon=1e12, seed=0)
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
        transport = Simulated(clients, Uniform(), Always(), 1)
        found = plan(algorithm, clients, transport, in_flight=12, horizon=100_000, seed=1)
        return [event for event in found if not isinstance(event, Decided)]

    reference = schedule(FedBuff(buffer_size=5))
    assert schedule(AFBS(buffer_size=5)) == reference
    assert schedule(AFBS(buffer_size=5, drop="random")) == reference
