"""The batteries for authors: our own parts pass them, and a part that breaks a promise does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from afbs import registry
from afbs.executors._rows import Rows
from afbs.executors.inline import Inline, InlinePool, InlineSession
from afbs.executors.processes import Processes
from afbs.interfaces import Executor
from afbs.latency.always import Always
from afbs.latency.dropouts import Dropouts
from afbs.latency.uniform import Uniform
from afbs.latency.windows import Windows
from afbs.testing.executors import check_executor
from afbs.testing.transports import check_transport
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Instant, Order, Shipped
from federation import quadratic
from fleet import Fleet, FleetConnection


@pytest.mark.parametrize("availability", [Always(), Dropouts(0.5), Windows(period=5000.0)])
def test_virtual_time_keeps_the_promises_of_a_transport(availability: Any) -> None:
    check_transport(lambda clients: VirtualTime(clients, Uniform(), availability, 1))


def test_the_fleet_of_the_tests_keeps_the_promises_of_a_transport() -> None:
    from afbs.algorithms.fedbuff import FedBuff

    def connect(clients: Sequence[ClientInfo]) -> FleetConnection:
        connection = FleetConnection(Fleet(quadratic(6, 0), FedBuff(), lambda order: 0.003))
        connection.publish(0, connection.fleet.world.start)
        return connection

    check_transport(connect, horizon=3.0)


class Twice(VirtualTime):  # type: ignore[misc]
    def receive(self, until: float) -> Instant | None:
        found = super().receive(until)
        return found and found._replace(delivered=[*found.delivered, *found.delivered])


class Backwards(VirtualTime):  # type: ignore[misc]
    def receive(self, until: float) -> Instant | None:
        found = super().receive(until)
        return found and found._replace(time=-1.0 + found.time * 1e-9)


class Late(VirtualTime):  # type: ignore[misc]
    def receive(self, until: float) -> Instant | None:
        return super().receive(until * 2)


class Forgetful(VirtualTime):  # type: ignore[misc]
    def send(self, order: Order) -> None:
        if order.sequence != 3:
            super().send(order)


class Meddling(VirtualTime):  # type: ignore[misc]
    def reachable(self, client: int) -> bool:
        self.watch(client)
        return True


class Swallowing(VirtualTime):  # type: ignore[misc]
    """The second order of a client never comes back, and nothing happens instead."""

    def send(self, order: Order) -> None:
        if order.occurrence != 1:
            super().send(order)

    def receive(self, until: float) -> Instant | None:
        return super().receive(until) or Instant(until)


class Newborn(VirtualTime):  # type: ignore[misc]
    """Takes orders over, but not the time."""

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[int]) -> None:
        super().take_over(0.0, [order._replace(time=0.0) for order in orders], away)


class Deserting(VirtualTime):  # type: ignore[misc]
    """Takes orders over, but not those who are away."""

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[int]) -> None:
        super().take_over(time, orders, ())


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Swallowing, "neither answered nor lost"),
        (Newborn, "Taken over at 1000.0 s"),
        (Deserting, "nobody was told"),
        (Twice, "came back twice"),
        (Backwards, "not a moment|time must go on"),
        (Late, "reported"),
        (Forgetful, "were out|never came back"),
        (Meddling, "made something happen|nobody watched"),
    ],
)
def test_a_transport_that_breaks_a_promise_is_found_out(kind: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_transport(lambda clients: kind(clients, Uniform(), Always(), 1))


@pytest.mark.parametrize("name", sorted(set(registry.names("executor")) - {"ray"}))  # that has a network of its own
def test_every_executor_keeps_its_promises(name: str) -> None:
    kind = registry.find("executor", name)
    check_executor(kind(workers=2) if kind is Processes else kind())


class Rounded(InlineSession):  # type: ignore[misc]
    """Trains in a lower precision."""

    def collect(self, seconds: float | None = None) -> Any:
        done = super().collect(seconds)
        assert isinstance(self.store, Rows)
        for row in self.store._rows.values():
            row[:] = row.astype("float16")
        return done


class Optimist(InlineSession):  # type: ignore[misc]
    """Never says that a vector is not finite."""

    def collect(self, seconds: float | None = None) -> Any:
        done = super().collect(seconds)
        return [result._replace(outcome="done") if isinstance(result, Shipped) else result for result in done]


class Rash(InlineSession):  # type: ignore[misc]
    """Lets clients remember what did not count."""

    def settle(self, order: Order, kept: bool) -> None:
        super().settle(order, True)


@pytest.mark.parametrize(
    ("kind", "sentence"), [(Rounded, "bit for bit"), (Optimist, "not finite"), (Rash, "was not kept")]
)
def test_an_executor_that_breaks_a_promise_is_found_out(kind: Any, sentence: str) -> None:
    class Pool(InlinePool):  # type: ignore[misc]
        def session(self, workload: Any) -> Any:
            return kind(workload)

    class Broken(Executor):
        number = 1

        def start(self) -> Any:
            return Pool()

    with pytest.raises(AssertionError, match=sentence):
        check_executor(Broken())
    assert Inline().number == 1
