"""A round: who is asked, when it is over, and what becomes of those who are late or lost."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from afbs.core.cohort import Cohort, Rounds
from afbs.seeds import Key
from afbs.types import ClientId, Order, Update


class Three:
    """Three idle clients and room for all of them."""

    busy = 0

    def __init__(self, version: int = 0, time: float = 0.0, room: int = 3):
        self.version, self.time, self.room = version, time, room

    def sample(self, number: int, key: Key) -> list[ClientId]:
        return [5, 6, 7][:number]

    def __iter__(self) -> Iterator[ClientId]:
        return iter([5, 6, 7])

    def __contains__(self, client: object) -> bool:
        return client in (5, 6, 7)


KEY = Key.root(0, "sample")
ALL = Rounds()


def order(client: int, version: int = 0) -> Order:
    return Order(client, version, 0, client, 0.0)


def update(client: int, version: int = 0, now: int | None = None) -> Update:
    """Of a client that began with `version` and answered when there were `now` of them."""
    return Update(order(client, version), version if now is None else now, 1, client)


def test_a_round_closes_when_everybody_has_answered() -> None:
    cohort, chosen = Cohort().ask(Three(), KEY, ALL)
    assert chosen == [5, 6, 7]
    for client in (6, 5):
        cohort, step = cohort.answered(update(client), ALL)
        assert step is None
    cohort, step = cohort.answered(update(7), ALL)
    assert step is not None
    assert [used.client for used in step.used] == [6, 5, 7]
    assert cohort == Cohort()


def test_nobody_is_asked_while_a_round_is_open() -> None:
    cohort, _ = Cohort().ask(Three(), KEY, ALL)
    assert cohort.ask(Three(), KEY, ALL) == (cohort, [])


def test_the_last_loss_closes_the_round_with_those_who_answered() -> None:
    cohort, _ = Cohort().ask(Three(), KEY, ALL)
    cohort, _ = cohort.answered(update(6), ALL)
    cohort, step = cohort.lost(order(5), ALL)
    assert step is None
    cohort, step = cohort.lost(order(7), ALL)
    assert step is not None
    assert [used.client for used in step.used] == [6]


def test_if_everybody_is_lost_a_new_round_is_asked() -> None:
    cohort, _ = Cohort().ask(Three(), KEY, ALL)
    for client in (5, 6, 7):
        cohort, step = cohort.lost(order(client), ALL)
        assert step is None
    assert cohort.ask(Three(), KEY, ALL)[1] == [5, 6, 7]


def test_a_quorum_closes_the_round_and_who_comes_later_is_dropped_by_the_next_step() -> None:
    rounds = Rounds(quorum=2)
    cohort, _ = Cohort().ask(Three(), KEY, rounds)
    cohort, step = cohort.answered(update(5), rounds)
    assert step is None
    cohort, step = cohort.answered(update(7), rounds)
    assert step is not None
    assert [used.client for used in step.used] == [5, 7]
    cohort, _ = cohort.ask(Three(version=1, room=2), KEY, rounds)
    cohort, step = cohort.answered(update(6, 0, now=1), rounds)
    assert step is None
    for client in (5, 6):
        assert step is None
        cohort, step = cohort.answered(update(client, 1), rounds)
    assert step is not None
    assert [used.client for used in step.used] == [5, 6]
    assert [late.client for late in step.dropped] == [6]
    assert step.why == ("in time", "in time", "late")


def test_a_quorum_with_over_selection_asks_that_share_more() -> None:
    assert [Rounds(4, share).size(10) for share in (0.0, 0.25, 0.3, 9.0)] == [10, 5, 6, 10]


def test_whom_a_closed_round_loses_is_not_awaited_by_the_next() -> None:
    rounds = Rounds(quorum=2)
    for version in (0, 3):
        cohort, _ = Cohort().ask(Three(version), KEY, rounds)
        for client in (5, 6):
            cohort, _ = cohort.answered(update(client, version), rounds)
        closed = cohort
        cohort, step = cohort.lost(order(7, version), rounds)
        assert (cohort, step) == (closed, None)
        cohort, chosen = cohort.ask(Three(version + 1), KEY, rounds)
        assert chosen == [5, 6, 7]
        assert cohort.lost(order(7, version), rounds) == (cohort, None)


def test_a_deadline_closes_the_round_with_those_who_answered() -> None:
    rounds = Rounds(deadline=30.0)
    cohort, _ = Cohort().ask(Three(time=100.0), KEY, rounds)
    assert cohort.wake(rounds) == 130.0
    cohort, _ = cohort.answered(update(6), rounds)
    cohort, step = cohort.woken()
    assert step is not None
    assert [used.client for used in step.used] == [6]
    assert cohort.wake(rounds) is None


def test_if_nobody_answered_by_the_deadline_more_are_asked_and_all_are_awaited() -> None:
    rounds = Rounds(deadline=30.0)
    cohort, _ = Cohort().ask(Three(room=1), KEY, rounds)
    cohort, step = cohort.woken()
    assert step is None
    assert (cohort.wake(rounds) or inf) > 30.0
    cohort, chosen = cohort.ask(Three(time=30.0, room=2), KEY, rounds)
    assert chosen == [5, 6]
    assert cohort.awaited == 3
    assert cohort.wake(rounds) == 60.0


def test_without_a_deadline_nobody_is_woken() -> None:
    assert Cohort().ask(Three(), KEY, ALL)[0].wake(ALL) is None
