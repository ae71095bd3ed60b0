"""Shared memory: rows are handed out once, given back, merged, and seen by everyone who maps the file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afbs.executors._arena import Arena, unnamed_memory


@pytest.fixture
def memory() -> Iterator[int]:
    fd = unnamed_memory()
    yield fd
    os.close(fd)


def test_what_one_side_writes_the_other_reads(memory: int) -> None:
    server, worker = Arena(10, memory), Arena(10, memory)
    first, rows = server.block(3)
    rows[1] = np.arange(10)
    assert worker.get(first + 1).tolist() == list(range(10))
    worker.get(first)[:] = 7.0
    assert rows[0].tolist() == server.get(first).tolist() == [7.0] * 10


def test_what_was_put_is_a_copy_until_it_is_dropped(memory: int) -> None:
    arena = Arena(4, memory)
    vector = np.arange(4, dtype=np.float32)
    slot = arena.put(vector)
    vector[:] = -1.0
    assert arena.get(slot).tolist() == [0.0, 1.0, 2.0, 3.0]
    arena.drop(slot)
    assert arena.put(vector) == slot


def test_a_worker_that_mapped_the_file_early_sees_rows_added_later(memory: int) -> None:
    server, worker = Arena(4, memory), Arena(4, memory)
    early, _ = server.block(1)
    worker.get(early)
    late, rows = server.block(500)
    rows[499] = 3.0
    assert worker.get(late + 499).tolist() == [3.0] * 4


def test_views_from_before_the_file_grew_still_show_the_same_rows(memory: int) -> None:
    arena = Arena(4, memory)
    first, view = arena.block(2)
    arena.block(1000)
    arena.block(1000)
    view[0] = 5.0
    assert arena.get(first).tolist() == [5.0] * 4


def test_rows_that_were_given_back_are_used_again(memory: int) -> None:
    arena = Arena(4, memory)
    blocks = [arena.block(16)[0] for _ in range(4)]
    size = os.fstat(memory).st_size
    for block in (blocks[2], blocks[0], blocks[1]):
        arena.release(block)
    assert arena.block(48)[0] == blocks[0]
    assert os.fstat(memory).st_size == size


def test_large_rows_that_were_given_back_take_no_memory_and_their_neighbours_keep_theirs(memory: int) -> None:
    """Rows of 4 MB and 64 bytes, so that they share pages: of four that were written two are given back."""
    arena = Arena((1 << 20) + 1, memory)
    first, rows = arena.block(1)
    middle, more = arena.block(2)
    last, end = arena.block(1)
    for number, view in ((1.0, rows), (2.0, more), (3.0, end)):
        view[:] = number
    taken = os.fstat(memory).st_blocks * 512
    arena.release(middle)
    assert 8 << 20 > taken - os.fstat(memory).st_blocks * 512 > (8 << 20) - 3 * 4096
    assert (arena.get(first) == 1.0).all()
    assert (arena.get(last) == 3.0).all()


def test_rows_begin_at_cache_lines(memory: int) -> None:
    _, rows = Arena(5, memory).block(2)
    assert rows.strides == (64, 4)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60))
def test_no_row_ever_belongs_to_two_blocks(actions: list[tuple[bool, int]]) -> None:
    fd = unnamed_memory()
    try:
        arena = Arena(3, fd)
        taken: dict[int, int] = {}
        for give_back, number in actions:
            if give_back and taken:
                first = sorted(taken)[number % len(taken)]
                arena.release(first)
                del taken[first]
            else:
                first, _ = arena.block(number)
                mine = set(range(first, first + number))
                for other, count in taken.items():
                    assert not mine & set(range(other, other + count))
                taken[first] = number
                assert (first + number) * 64 <= os.fstat(fd).st_size
    finally:
        os.close(fd)


def test_the_peak_is_the_highest_row_that_was_ever_in_use() -> None:
    fd = unnamed_memory()
    try:
        arena = Arena(16, fd)
        first, _ = arena.block(3)
        arena.block(2)
        assert arena.peak_bytes == 5 * 64
        arena.release(first)
        arena.block(3)
        assert arena.peak_bytes == 5 * 64
    finally:
        os.close(fd)
