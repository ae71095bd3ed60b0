"""Means, ranks and paired tests, worked by hand."""

from __future__ import annotations

import math

import pytest

from afbs.sweeps.statistics import paired, rows

THREE = {
    "a": {1: 0.50, 2: 0.60, 3: 0.70},
    "b": {1: 0.40, 2: 0.65, 3: 0.60},
    "c": {1: 0.45, 2: 0.50, 3: 0.60},
}


def test_mean_and_deviation_over_seeds() -> None:
    row = rows(THREE, None, "t")["a"]
    assert row.mean == pytest.approx(0.6)
    assert row.deviation == pytest.approx(0.1)  # differences of -0.1, 0 and 0.1: the root of 0.02 / 2
    assert row.number == 3


def test_ranks_are_averaged_over_seeds_and_shared_by_equals() -> None:
    """Seed 1: a b c are 1 3 2. Seed 2: 2 1 3. Seed 3: 1, then 2 and 3 shared."""
    found = rows(THREE, None, "t")
    assert found["a"].rank == pytest.approx(4 / 3)
    assert found["b"].rank == pytest.approx((3 + 1 + 2.5) / 3)
    assert found["c"].rank == pytest.approx((2 + 3 + 2.5) / 3)


def test_of_times_the_smaller_is_the_better_and_never_is_last() -> None:
    times = {"slow": {1: 20.0}, "fast": {1: 10.0}, "never": {1: math.nan}}
    found = rows(times, None, "t", smaller=True)
    assert [found[arm].rank for arm in ("fast", "slow", "never")] == [1, 2, 3]
    assert found["never"].number == 0


def test_ranks_count_only_seeds_that_all_arms_have() -> None:
    found = rows({"a": {1: 0.5, 2: 0.1}, "b": {1: 0.4}}, None, "t")
    assert (found["a"].rank, found["b"].rank) == (1, 2)


def test_the_paired_t_test_of_three_seeds() -> None:
    """Differences 0.1, -0.05, 0.1: mean 0.05, deviation 0.0866, so t = 1, and with two degrees of freedom its tail is
    p = 1 - t / sqrt(2 + t²) = 1 - 1 / sqrt(3)."""
    difference, p = paired(THREE["a"], THREE["b"], "t")
    assert difference == pytest.approx(0.05)
    assert p == pytest.approx(1 - 1 / math.sqrt(3))


def test_wilcoxons_test_of_five_seeds_that_all_say_the_same() -> None:
    """All five differences have one sign: of 2⁵ signs, two are as extreme."""
    mine = {seed: seed * 1.0 for seed in range(1, 6)}
    other = {seed: seed * 0.5 for seed in range(1, 6)}
    assert paired(mine, other, "wilcoxon")[1] == pytest.approx(2 / 32)


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_where_nothing_can_be_said_nothing_is(test: str) -> None:
    same = {1: 0.5, 2: 0.5}
    assert math.isnan(paired(same, same, test)[1])  # type: ignore[arg-type]
    assert math.isnan(paired({1: 0.5}, {1: 0.4}, test)[1])  # type: ignore[arg-type]
    assert math.isnan(paired({1: 0.5}, {2: 0.4}, test)[0])  # type: ignore[arg-type]


def test_a_seed_without_a_number_is_in_no_pair() -> None:
    difference, _ = paired({1: 0.5, 2: math.nan, 3: 0.7}, {1: 0.4, 2: 0.1, 3: 0.6}, "t")
    assert difference == pytest.approx(0.1)


@pytest.mark.parametrize("first", range(300, 340))
def test_differences_that_are_equal_but_for_rounding_have_no_p(first: int) -> None:
    """Of 355 samples both seeds have seven more right; as floats the differences are rarely the same."""
    mine = {1: (first + 7) / 355, 2: (first + 12) / 355}
    other = {1: first / 355, 2: (first + 5) / 355}
    difference, p = paired(mine, other, "t")
    assert difference == pytest.approx(7 / 355)
    assert math.isnan(p)


def test_wilcoxons_ranks_are_shared_by_differences_that_are_equal_but_for_rounding() -> None:
    """0.1 + 0.2 is not 0.3 to a computer. Of five equal differences one is negative: 12 of 2⁵ signs are as extreme."""
    other = dict.fromkeys(range(5), 0.3)
    mine = {0: 0.2, 1: 0.4, 2: 0.3 + 0.1, 3: 0.1 + 0.3, 4: 0.1 + 0.2 + 0.1}
    assert paired(mine, other, "wilcoxon")[1] == pytest.approx(12 / 32)
