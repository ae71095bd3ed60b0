"""AFBS's own decisions, on buffers small enough to work out by hand."""

from __future__ import annotations

from math import sqrt

import pytest

from afbs.algorithms.afbs import AFBS
from afbs.seeds import Key
from afbs.types import ClientInfo, Order, Step, Update

KEY = Key.root(0, "select")
CLIENTS = [ClientInfo(0, 100, cluster=1), ClientInfo(1, 10, cluster=1)]


def arrival(client: int, examples: int, staleness: int, version: int = 5) -> Update:
    return Update(Order(client, version - staleness, 0, client, 0.0), version, examples, client)


def decided(algorithm: AFBS, clients: list[ClientInfo], *updates: Update) -> Step:
    state = algorithm.init(clients)
    step = None
    for update in updates:
        assert step is None
        state, step = algorithm.receive(state, update, KEY)
    assert step is not None
    assert algorithm.stalled(state)[1] is None, "the buffer is empty again"
    return step


def clients_of(updates: tuple[Update, ...]) -> list[int]:
    return [update.client for update in updates]


def test_the_worked_example_keeps_three_of_four_and_weighs_them_by_the_freshest() -> None:
    algorithm = AFBS(buffer_size=4, clustering=False, survival="none")
    buffer = [arrival(0, 100, 3), arrival(1, 40, 1), arrival(2, 30, 2), arrival(3, 39, 0)]
    step = decided(algorithm, [], *buffer)
    assert clients_of(step.used) == [0, 1, 3]
    assert clients_of(step.dropped) == [2]
    assert algorithm.weigh(step.used) == pytest.approx([1 / 3] * 3)
    assert algorithm.weigh(step.used[:2]) == pytest.approx([1 / (2 * sqrt(2))] * 2)


def test_an_inferior_update_is_safe_in_another_cluster() -> None:
    algorithm = AFBS(buffer_size=2, survival="none")
    buffer = arrival(0, 100, 0), arrival(1, 10, 1)
    assert clients_of(decided(algorithm, CLIENTS, *buffer).dropped) == [1]
    apart = [CLIENTS[0], ClientInfo(1, 10, cluster=2)]
    assert clients_of(decided(algorithm, apart, *buffer).dropped) == []
    assert clients_of(decided(AFBS(buffer_size=2, survival="none", clustering=False), apart, *buffer).dropped) == [1]


def test_a_cluster_that_changes_counts_for_updates_that_are_already_waiting() -> None:
    algorithm = AFBS(buffer_size=2, survival="none")
    state = algorithm.init(CLIENTS)
    state, _ = algorithm.receive(state, arrival(1, 10, 1), KEY)
    state = algorithm.joined(state, ClientInfo(1, 10, cluster=2))
    _, step = algorithm.receive(state, arrival(0, 100, 0), KEY)
    assert step is not None
    assert clients_of(step.used) == [1, 0]


def test_random_dropping_drops_as_many_as_selection_would() -> None:
    buffer = [arrival(0, 100, 3), arrival(1, 40, 1), arrival(2, 30, 2), arrival(3, 39, 0)]
    algorithm = AFBS(buffer_size=4, clustering=False, survival="none", drop="random")
    state = algorithm.init([])
    for update in buffer[:3]:
        state, _ = algorithm.receive(state, update, KEY)
    dropped = set()
    for version in range(60):
        _, step = algorithm.receive(state, buffer[3], KEY.child(version))
        assert step is not None
        assert len(step.dropped) == 1
        dropped |= set(clients_of(step.dropped))
    assert dropped == {0, 1, 2, 3}


def test_what_is_left_when_nobody_comes_any_more_counts_in_full() -> None:
    algorithm = AFBS(buffer_size=3, survival="none")
    state = algorithm.init(CLIENTS)
    for update in (arrival(0, 100, 0), arrival(1, 10, 1)):
        state, _ = algorithm.receive(state, update, KEY)
    state, step = algorithm.stalled(state)
    assert step is not None
    assert clients_of(step.used) == [0, 1]
    assert algorithm.stalled(state)[1] is None
