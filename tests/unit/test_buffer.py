from __future__ import annotations

from afbs.core.buffer import Buffer
from afbs.types import Order, Update


def update(number: int) -> Update:
    return Update(Order(number, 0, 0, number, 0.0), 0, 1, number)


def test_updates_come_back_in_the_order_of_arrival() -> None:
    buffer = Buffer().add(update(4)).add(update(2)).add(update(9))
    assert [found.client for found in buffer.updates()] == [4, 2, 9]
    assert buffer.size == 3


def test_adding_leaves_the_buffer_as_it_was() -> None:
    one = Buffer().add(update(1))
    left, right = one.add(update(2)), one.add(update(3))
    assert [found.client for found in one.updates()] == [1]
    assert [found.client for found in left.updates()] == [1, 2]
    assert [found.client for found in right.updates()] == [1, 3]


def test_an_empty_buffer_is_empty() -> None:
    assert Buffer().updates() == ()
    assert Buffer().size == 0
