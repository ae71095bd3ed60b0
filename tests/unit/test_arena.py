"""Shared memory: rows are handed out once, given back, merged, and seen by everyone who maps the file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afbs.engine.executors.arena import Arena, unnamed_file


@pytest.fixture
def memory() -> Iterator[int]:
    fd = unnamed_file()
    yield fd
    os.close(fd)


def test_what_one_side_writes_the_other_reads(memory: int) -> None:
    server, worker = Arena(10, memory), Arena(10, memory)
    first = server.allocate(3)
    server.rows(first, 3)[1] = np.arange(10)
    assert worker.rows(first + 1, 1)[0].tolist() == list(range(10))
    worker.rows(first, 1)[0] = 7.0
    assert server.rows(first, 1)[0].tolist() == [7.0] * 10


def test_a_worker_that_mapped_the_file_early_sees_rows_added_later(memory: int) -> None:
    server, worker = Arena(4, memory), Arena(4, memory)
    early = server.allocate(1)
    worker.rows(early, 1)
    late = server.allocate(500)
    server.rows(late + 499, 1)[0] = 3.0
    assert worker.rows(late + 499, 1)[0].tolist() == [3.0] * 4


def test_views_from_before_the_file_grew_still_show_the_same_rows(memory: int) -> None:
    arena = Arena(4, memory)
    first = arena.allocate(2)
    view = arena.rows(first, 2)
    arena.allocate(1000)
    arena.rows(arena.allocate(1000), 1000)
    view[0] = 5.0
    assert arena.rows(first, 1)[0].tolist() == [5.0] * 4


def test_rows_that_were_given_back_are_used_again(memory: int) -> None:
    arena = Arena(4, memory)
    blocks = [arena.allocate(16) for _ in range(4)]
    size = os.fstat(memory).st_size
    for block in (blocks[2], blocks[0], blocks[1]):
        arena.free(block)
    assert arena.allocate(48) == blocks[0]
    assert os.fstat(memory).st_size == size


def test_rows_begin_at_cache_lines(memory: int) -> None:
    arena = Arena(5, memory)
    rows = arena.rows(arena.allocate(2), 2)
    assert rows.strides == (64, 4)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60))
def test_no_row_ever_belongs_to_two_blocks(actions: list[tuple[bool, int]]) -> None:
    fd = unnamed_file()
    try:
        arena = Arena(3, fd)
        taken: dict[int, int] = {}
        for give_back, number in actions:
            if give_back and taken:
                first = sorted(taken)[number % len(taken)]
                arena.free(first)
                del taken[first]
            else:
                first = arena.allocate(number)
                mine = set(range(first, first + number))
                for other, count in taken.items():
                    assert not mine & set(range(other, other + count))
                taken[first] = number
                assert (first + number) * 64 <= os.fstat(fd).st_size
    finally:
        os.close(fd)


def test_the_peak_is_the_highest_row_that_was_ever_in_use() -> None:
    fd = unnamed_file()
    try:
        arena = Arena(16, fd)
        first = arena.allocate(3)
        arena.allocate(2)
        assert arena.peak_bytes == 5 * 64
        arena.free(first)
        arena.allocate(3)
        assert arena.peak_bytes == 5 * 64
    finally:
        os.close(fd)
