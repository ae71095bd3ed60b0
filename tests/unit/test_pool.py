"""Drawing from the idle: uniform whoever is away, pure, and cheap to look through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from afbs.engine.pool import IdleClients
from afbs.latency.departures import Departures
from afbs.latency.dropouts import Dropouts
from afbs.latency.uniform import Uniform
from afbs.latency.windows import Windows
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Order

DRAWS = 20_000


def counted(reachable: Callable[[int], bool], clients: int, number: int) -> Counter[int]:
    """How often each is drawn, each time from the same idle clients, with a fresh key."""
    drawn: Counter[int] = Counter()
    root = Key.root(1, "test")
    for draw in range(DRAWS):
        pool = IdleClients(range(clients), 100, reachable)
        drawn.update(pool.sample(number, root.child(draw)))
    return drawn


def chi_squared(drawn: Counter[int], there: list[int]) -> float:
    expected = sum(drawn.values()) / len(there)
    return sum((drawn[client] - expected) ** 2 / expected for client in there)


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("gone", [{0}, {19}, {3, 4, 5}, set(range(10)), set(range(1, 20))])
def test_everybody_who_can_be_reached_is_equally_likely_to_be_drawn(gone: set[int], number: int) -> None:
    """χ² with at most 18 degrees of freedom exceeds 50 once in 20,000 times."""
    there = [client for client in range(20) if client not in gone]
    drawn = counted(lambda client: client not in gone, 20, number)
    assert set(drawn) == set(there)
    assert sum(drawn.values()) == DRAWS * min(number, len(there))
    assert chi_squared(drawn, there) < 50


@pytest.mark.parametrize(
    "availability", [Windows(period=1000.0, share=0.5), Departures(share=0.4, leave=50.0), Dropouts(1.0, away=1e6)]
)
def test_the_draw_is_uniform_under_every_availability(availability: Any) -> None:
    clients = [ClientInfo(number, 10) for number in range(20)]
    connection = VirtualTime(clients, Uniform(100, 100), availability, 1)
    for client in range(5):  # some are lost with their jobs
        if connection.reachable(client):
            connection.send(Order(client, 0, 0, client, 0.0))
    connection.receive(90.0)
    there = [client.id for client in clients if connection.reachable(client.id)]
    assert 0 < len(there) < 20
    drawn = counted(connection.reachable, 20, 1)
    assert set(drawn) == set(there)
    assert chi_squared(drawn, there) < 50


def test_looking_takes_nobody_and_the_same_key_draws_the_same() -> None:
    pool = IdleClients(range(10), 5, lambda client: client % 3 != 0)
    key = Key.root(1, "test")
    first = [pool.sample(3, key) for _ in range(3)]
    assert first[0] == first[1] == first[2]
    assert sorted(pool) == [1, 2, 4, 5, 7, 8]
    assert 3 not in pool
    assert 4 in pool
    assert sorted(pool.let_go()) == [0, 3, 6, 9]
    assert pool.let_go() == []


def test_adding_twice_is_adding_once() -> None:
    pool = IdleClients(range(3), 5, lambda client: True)
    for _ in range(5):
        pool.add(1)
    assert sorted(pool.sample(10, Key.root(1, "test"))) == [0, 1, 2]
    assert pool.remove(1)
    assert not pool.remove(1)
    assert sorted(pool) == [0, 2]


def test_looking_through_a_million_copies_nothing() -> None:
    asked = []

    def present(client: int) -> bool:
        asked.append(client)
        return True

    pool = IdleClients(range(1_000_000), 5, present)
    found = iter(pool)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    assert asked == [0, 1, 2]
