"""Keys: draws depend on what they are for and on nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afbs.seeds import Key


def test_a_draw_is_the_same_whatever_was_drawn_before() -> None:
    first = Key.root(1, "latency").child(7).uniform()
    Key.root(1, "latency").child(6).uniform()
    Key.root(1, "latency").child(7).generator().random(100)
    assert Key.root(1, "latency").child(7).uniform() == first


def test_seed_purpose_client_and_occurrence_all_matter() -> None:
    keys = [
        Key.root(1, "job").child(2, 3),
        Key.root(2, "job").child(2, 3),
        Key.root(1, "sample").child(2, 3),
        Key.root(1, "job").child(3, 2),
        Key.root(1, "job").child(2, 3, 0),
        Key.root(1, "job").child(2),
    ]
    assert len({key.uniform() for key in keys}) == len(keys)
    assert len({key.integer() for key in keys}) == len(keys)
    assert len({key.generator().integers(2**60) for key in keys}) == len(keys)


def test_a_child_of_a_child_is_the_grandchild() -> None:
    assert Key.root(5, "x").child(1).child(2).uniform() == Key.root(5, "x").child(1, 2).uniform()


def test_single_draws_and_the_generator_do_not_repeat_each_other() -> None:
    key = Key.root(0, "x")
    singles = [key.uniform(index) for index in range(100)]
    assert not set(singles) & set(key.generator().random(1000).tolist())
    assert len(set(singles)) == 100


@given(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_draws_stay_within_their_bounds(seed: int, client: int) -> None:
    key = Key.root(seed, "x").child(client)
    assert 0.0 <= key.uniform() < 1.0
    assert 0 <= key.integer() < 2**63


def test_draws_are_uniform() -> None:
    draws = np.array([Key.root(3, "x").child(i).uniform() for i in range(20_000)])
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_square < 43.8  # the 99.9 % point of chi-square with 19 degrees of freedom
