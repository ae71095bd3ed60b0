from __future__ import annotations

from afbs.core.cohort import Cohort
from afbs.seeds import Key
from afbs.types import ClientId, Order, Update


class Three:
    """Three idle clients and room for all of them."""

    room = 3
    busy = 0

    def sample(self, number: int, key: Key) -> list[ClientId]:
        return [5, 6, 7][:number]


KEY = Key.root(0, "sample")


def update(client: int) -> Update:
    return Update(Order(client, 0, 0, client, 0.0), 0, 1, client)


def test_a_round_closes_when_everybody_has_answered() -> None:
    cohort, chosen = Cohort().ask(Three(), KEY)
    assert chosen == [5, 6, 7]
    for client in (6, 5):
        cohort, step = cohort.answered(update(client))
        assert step is None
    cohort, step = cohort.answered(update(7))
    assert step is not None
    assert [used.client for used in step.used] == [6, 5, 7]
    assert cohort == Cohort()


def test_nobody_is_asked_while_a_round_is_open() -> None:
    cohort, _ = Cohort().ask(Three(), KEY)
    assert cohort.ask(Three(), KEY) == (cohort, [])


def test_the_last_loss_closes_the_round_with_those_who_answered() -> None:
    cohort, _ = Cohort().ask(Three(), KEY)
    cohort, _ = cohort.answered(update(6))
    cohort, step = cohort.lost()
    assert step is None
    cohort, step = cohort.lost()
    assert step is not None
    assert [used.client for used in step.used] == [6]


def test_if_everybody_is_lost_a_new_round_is_asked() -> None:
    cohort, _ = Cohort().ask(Three(), KEY)
    for _ in range(3):
        cohort, step = cohort.lost()
        assert step is None
    assert cohort.ask(Three(), KEY)[1] == [5, 6, 7]
