"""What every transport must keep to, for those who write their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from afbs.interfaces import Connection
from afbs.types import ClientInfo, Instant, Order

_TAKEN_OVER = 1000.0


def check_transport(
    connect: Callable[[Sequence[ClientInfo]], Connection], *, clients: int = 6, horizon: float = 100_000.0
) -> None:
    """Raises AssertionError with a sentence if a connection breaks a promise of `afbs.interfaces.Connection`.

    `connect` is given clients and makes a new connection to them each time it is called. Everybody is asked to work a
    few times; `horizon` is how many seconds that may take, virtual or real.
    """
    fleet = [ClientInfo(number, 10 + number, number % 2) for number in range(clients)]
    _check_orders_come_back_once(connect(fleet), fleet, horizon)
    _check_time_is_kept(connect(fleet), fleet)
    _check_asking_changes_nothing(connect, fleet, horizon)
    _check_take_over(connect(fleet), fleet, horizon)


def _check_orders_come_back_once(connection: Connection, fleet: Sequence[ClientInfo], horizon: float) -> None:
    """Every order is answered or lost, once; time goes on; whoever is watched returns."""
    out: dict[int, Order] = {}
    times = {client.id: 0 for client in fleet}
    away: set[int] = set()
    now = 0.0
    sequence = 0
    while True:
        for client in fleet:
            busy = any(order.client == client.id for order in out.values())
            if busy or client.id in away or times[client.id] >= 3:
                continue
            if not connection.reachable(client.id):
                connection.watch(client.id)
                away.add(client.id)
                continue
            order = Order(client.id, 0, times[client.id], sequence, now, 0.1)
            times[client.id] += 1
            out[sequence] = order
            sequence += 1
            connection.send(order)
        if not out and not away:
            return
        instant = connection.receive(horizon)
        if instant is None:
            assert not out, f"`receive` returned None while {len(out)} orders were out."
            return
        now = _check_instant(instant, now, horizon)
        for order in (*instant.delivered, *instant.failed):
            known = out.pop(order.sequence, None)
            assert known is not None, f"Order {order.sequence} came back twice, or was never sent."
            assert known == order, f"Order {order.sequence} came back changed: {order}, sent was {known}."
        for client_id in instant.returned:
            assert client_id in away, f"Client {client_id} was reported as returned, and nobody watched it."
            away.remove(client_id)
        if instant.time >= horizon:
            assert not out, f"Orders {sorted(out)} were neither answered nor lost within {horizon} s."
            return


def _check_time_is_kept(connection: Connection, fleet: Sequence[ClientInfo]) -> None:
    """Nothing later than `until` is reported, and if nothing happens by then, that is said at `until`."""
    for client in fleet:
        if connection.reachable(client.id):
            connection.send(Order(client.id, 0, 0, client.id, 0.0, 0.1))
    until, now = 1e-3, 0.0
    for _ in range(10_000):
        instant = connection.receive(until)
        if instant is None:
            return
        now = _check_instant(instant, now, until)
        if instant.time >= until:
            return
    raise AssertionError(f"`receive(until={until})` never came to {until} s.")


def _check_asking_changes_nothing(
    connect: Callable[[Sequence[ClientInfo]], Connection], fleet: Sequence[ClientInfo], horizon: float
) -> None:
    connection = connect(fleet)
    answers = [[connection.reachable(client.id) for client in fleet] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2], "`reachable` answered differently when asked again at once."
    if all(answers[0]) and connection.ahead:
        assert connection.receive(horizon) is None, "Asking `reachable` made something happen."


def _check_take_over(connection: Connection, fleet: Sequence[ClientInfo], horizon: float) -> None:
    """Orders that another connection sent come back through this one, and whom it watched returns; later than it ended.

    The last client is watched, all others have an order.
    """
    *busy, watched = fleet
    orders = [Order(client.id, 0, 0, 100 + client.id, _TAKEN_OVER - 1.0, 0.1) for client in busy]
    connection.take_over(_TAKEN_OVER, orders, [watched.id])
    out, returned = {order.sequence for order in orders}, False
    now, until = _TAKEN_OVER, _TAKEN_OVER + horizon
    while out or not returned:
        instant = connection.receive(until)
        if instant is None:
            break
        assert instant.time >= _TAKEN_OVER, f"Taken over at {_TAKEN_OVER} s, it reported {instant.time} s."
        now = _check_instant(instant, now, until)
        out -= {order.sequence for order in (*instant.delivered, *instant.failed)}
        returned = returned or watched.id in instant.returned
        if instant.time >= until:
            break
    assert not out, f"Orders {sorted(out)} were taken over and never came back."
    there = connection.reachable(watched.id)
    assert returned or not there, f"Client {watched.id} was away when it was taken over, is back, and nobody was told."


def _check_instant(instant: Instant, now: float, until: float) -> float:
    assert instant.time <= until, f"`receive(until={until})` reported {instant.time} s."
    assert 0 <= instant.time < inf, f"{instant.time} is not a moment."
    if not instant.quiet:
        assert instant.time > now, f"Two instants at {instant.time} s after {now} s: time must go on."
    return max(now, instant.time)
