"""What Gradient-Select guarantees, whatever the buffer. The names follow the facts proved of the rule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from afbs.core.selection import (
    BEST,
    DROPPED,
    FRESH,
    INFERIOR,
    LARGE,
    SURVIVOR,
    drawn_by_lot,
    gradient_select,
    judged,
)
from afbs.seeds import Key
from afbs.types import UserError


class Entry(NamedTuple):
    examples: int
    staleness: int
    cluster: int


entries = st.builds(Entry, st.integers(1, 60), st.integers(0, 8), st.integers(0, 3))
buffers = st.lists(entries, min_size=1, max_size=14)
chances = st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=14, max_size=14)


def reasons(buffer: list[Entry], survival: Any = "none", draws: list[float] | None = None) -> list[str]:
    volumes, ages, clusters = ([entry[i] for entry in buffer] for i in range(3))
    return judged(volumes, ages, clusters, survival, (draws or [0.5] * len(buffer)).__getitem__)


def kept(buffer: list[Entry], survival: Any = "none", draws: list[float] | None = None) -> list[bool]:
    return [reason not in DROPPED for reason in reasons(buffer, survival, draws)]


def score(entry: Entry) -> Fraction:
    return Fraction(entry.examples, (entry.staleness + 1) ** 2)


def best(buffer: list[Entry], cluster: int) -> int:
    """The highest score; ties go to the smaller staleness, then to the earlier arrival."""
    same = [i for i, entry in enumerate(buffer) if entry.cluster == cluster]
    return min(same, key=lambda i: (-score(buffer[i]), buffer[i].staleness, i))


def dominates(a: Entry, b: Entry) -> bool:
    return a.examples >= b.examples and a.staleness <= b.staleness and a[:2] != b[:2]


@given(buffers, chances, st.sampled_from(["buffer", "cluster", "none"]))
def test_the_rule_is_the_papers_word_for_word(buffer: list[Entry], draws: list[float], survival: str) -> None:
    highest = max(map(score, buffer))
    for x, keep in enumerate(kept(buffer, survival, draws)):
        entry, leader = buffer[x], buffer[best(buffer, buffer[x].cluster)]
        inferior = entry.examples < leader.examples and entry.staleness > leader.staleness
        chance = {"buffer": score(entry) / highest, "cluster": score(entry) / score(leader), "none": Fraction(0)}
        edge = abs(draws[x] - float(chance[survival])) < 1e-12
        assert edge or keep == (not inferior or draws[x] < chance[survival])


@given(buffers, chances, st.sampled_from(["buffer", "cluster", "none"]))
def test_every_verdict_says_why(buffer: list[Entry], draws: list[float], survival: str) -> None:
    for x, why in enumerate(reasons(buffer, survival, draws)):
        entry, leader = buffer[x], best(buffer, buffer[x].cluster)
        assert (why == BEST) == (x == leader)
        if why == FRESH:
            assert entry.staleness <= buffer[leader].staleness
        elif why == LARGE:
            assert entry.examples >= buffer[leader].examples
        elif why != BEST:
            assert why in (INFERIOR, SURVIVOR)
            assert entry.staleness > buffer[leader].staleness
            assert entry.examples < buffer[leader].examples


@given(buffers)
def test_the_best_of_every_cluster_is_kept_so_no_cluster_is_emptied(buffer: list[Entry]) -> None:
    keep = kept(buffer)
    for cluster in {entry.cluster for entry in buffer}:
        assert keep[best(buffer, cluster)]


@given(buffers)
def test_nothing_dominates_the_best_of_its_cluster(buffer: list[Entry]) -> None:
    for entry in buffer:
        assert not dominates(entry, buffer[best(buffer, entry.cluster)])


@given(buffers)
def test_whatever_is_on_the_pareto_front_of_its_cluster_is_kept(buffer: list[Entry]) -> None:
    for entry, keep in zip(buffer, kept(buffer), strict=True):
        rivals = [other for other in buffer if other.cluster == entry.cluster]
        assert keep or any(dominates(rival, entry) for rival in rivals)


def test_a_dominated_update_may_stay_if_the_best_does_not_beat_it_twice() -> None:
    assert kept([Entry(100, 3, 0), Entry(40, 1, 0), Entry(50, 3, 0), Entry(39, 0, 0)])[2]


@given(buffers, st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_scaling_the_volumes_of_a_cluster_changes_no_verdict_without_survival(
    buffer: list[Entry], factors: list[int]
) -> None:
    scaled = [entry._replace(examples=entry.examples * factors[entry.cluster]) for entry in buffer]
    assert kept(scaled) == kept(buffer)


@given(buffers, chances, st.sampled_from([2, 4, 8]))
def test_scaling_all_volumes_alike_changes_no_verdict_at_all(
    buffer: list[Entry], draws: list[float], factor: int
) -> None:
    scaled = [entry._replace(examples=entry.examples * factor) for entry in buffer]
    assert kept(scaled, "buffer", draws) == kept(buffer, "buffer", draws)


@given(buffers)
def test_the_freshest_update_is_never_dropped(buffer: list[Entry]) -> None:
    freshest = min(entry.staleness for entry in buffer)
    for entry, keep in zip(buffer, kept(buffer), strict=True):
        assert keep or entry.staleness > freshest


@given(buffers)
def test_selecting_twice_drops_nothing_more(buffer: list[Entry]) -> None:
    survivors = [entry for entry, keep in zip(buffer, kept(buffer), strict=True) if keep]
    assert all(kept(survivors))


@given(buffers, st.randoms())
def test_the_order_of_arrival_does_not_matter_without_survival(buffer: list[Entry], random: object) -> None:
    order = list(range(len(buffer)))
    random.shuffle(order)  # type: ignore[attr-defined]
    keep = kept(buffer)
    assert kept([buffer[i] for i in order]) == [keep[i] for i in order]


@given(buffers)
def test_clusters_do_not_touch_each_other(buffer: list[Entry]) -> None:
    keep = kept(buffer)
    for cluster in {entry.cluster for entry in buffer}:
        alone = [entry for entry in buffer if entry.cluster == cluster]
        assert kept(alone) == [flag for flag, entry in zip(keep, buffer, strict=True) if entry.cluster == cluster]


@given(buffers, st.integers(1, 60), st.integers(0, 8))
def test_equal_volumes_or_equal_staleness_drop_nothing(buffer: list[Entry], examples: int, staleness: int) -> None:
    assert all(kept([entry._replace(examples=examples) for entry in buffer]))
    assert all(kept([entry._replace(staleness=staleness) for entry in buffer]))


def test_a_tie_goes_to_the_fresher_update() -> None:
    """(4, 1) and (1, 0) both score 1; as yardstick the first would drop (3, 2), the second does not."""
    assert kept([Entry(4, 1, 0), Entry(1, 0, 0), Entry(3, 2, 0)]) == [True, True, True]
    assert kept([Entry(4, 1, 0), Entry(3, 2, 0)]) == [True, False]


@given(buffers)
@example([Entry(9, 2, 0), Entry(1, 0, 1)])
def test_one_cluster_is_the_whole_buffer(buffer: list[Entry]) -> None:
    together = gradient_select([e.examples for e in buffer], [e.staleness for e in buffer], survival="none")
    assert together.tolist() == kept([entry._replace(cluster=7) for entry in buffer])


def test_the_worked_example() -> None:
    """a(100, 3) scores 6.25, b(40, 1) 10, c(30, 2) 3.33, d(39, 0) 39: c alone is inferior, and lives one in 11.7."""
    buffer = [Entry(100, 3, 0), Entry(40, 1, 0), Entry(30, 2, 0), Entry(39, 0, 0)]
    assert kept(buffer) == [True, True, False, True]
    chance = (30 / 9) / 39
    assert chance == pytest.approx(0.0855, abs=5e-5)
    assert kept(buffer, "buffer", [0.99, 0.99, chance - 1e-9, 0.99]) == [True, True, True, True]
    assert kept(buffer, "buffer", [0.99, 0.99, chance + 1e-9, 0.99]) == [True, True, False, True]


def test_an_inferior_update_survives_as_often_as_its_score_says() -> None:
    rng = np.random.default_rng(5)
    lives = [gradient_select([100, 40, 30, 39], [3, 1, 2, 0], rng=rng)[2] for _ in range(20_000)]
    assert np.mean(lives) == pytest.approx(0.0855, abs=0.006)


def test_survival_over_the_cluster_is_kinder_than_over_the_buffer() -> None:
    """(3, 1) is inferior to (4, 0) in cluster 0: it lives with 0.75/4 there, with 0.75/100 over the whole buffer."""
    buffer = [Entry(4, 0, 0), Entry(3, 1, 0), Entry(100, 0, 1)]
    draws = [0.9, 0.1, 0.9]
    assert kept(buffer, "cluster", draws) == [True, True, True]
    assert kept(buffer, "buffer", draws) == [True, False, True]


def by_lot(why: list[str], key: Key) -> list[bool]:
    return [reason not in DROPPED for reason in drawn_by_lot(why, key)]


@given(st.lists(st.booleans(), max_size=14), st.integers(0, 2**32))
def test_random_dropping_drops_as_many(keep: list[bool], seed: int) -> None:
    why = [BEST if flag else INFERIOR for flag in keep]
    assert sorted(by_lot(why, Key.root(seed, "select"))) == sorted(keep)


def test_random_dropping_drops_everybody_equally_often() -> None:
    draws = [by_lot([BEST, FRESH, INFERIOR, LARGE], Key.root(1, "select").child(i)) for i in range(8_000)]
    assert np.mean(draws, axis=0) == pytest.approx([0.75] * 4, abs=0.02)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"examples": [0, 3], "staleness": [0, 1]}, "`examples` must be at least 1, got 0"),
        ({"examples": [3], "staleness": [-1]}, "`staleness` must be at least 0, got -1"),
        ({"examples": [3.5], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": [float("inf")], "staleness": [1]}, r"`examples` must be one row of whole numbers, got \[inf\]"),
        ({"examples": [3], "staleness": [float("-inf")]}, "`staleness` must be one row of whole numbers"),
        ({"examples": [float("nan")], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": ["three"], "staleness": [1]}, r"`examples` must be one row of whole numbers, got \['three'\]"),
        ({"examples": "three", "staleness": [1]}, "`examples` must be one row of whole numbers, got 'three'"),
        ({"examples": None, "staleness": [1]}, "`examples` must be one row of whole numbers, got None"),
        ({"examples": [3, None], "staleness": [1, 1]}, "`examples` must be one row of whole numbers"),
        ({"examples": [[3, 4], [5]], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": [3 + 1j], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": 3, "staleness": 1}, "`examples` must be one row of whole numbers, got 3"),
        ({"examples": [True], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": [10**30], "staleness": [1]}, "`examples` must be one row of whole numbers"),
        ({"examples": [3], "staleness": [1], "clusters": ["a"]}, "`clusters` must be one row of whole numbers"),
        ({"examples": [3], "staleness": [1], "survival": ["buffer"]}, "`survival` must be"),
        ({"examples": [3], "staleness": [1], "rng": 5}, "`rng` must be a numpy.random.Generator, got 5"),
        ({"examples": [3, 4], "staleness": [1]}, "equally long, got 2, 1 and 2"),
        ({"examples": [3], "staleness": [1], "survival": "all"}, "`survival` must be 'buffer', 'cluster' or 'none'"),
        ({"examples": [3], "staleness": [1]}, "`rng` is needed"),
    ],
)
def test_a_wrong_argument_is_named(given_: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        gradient_select(**given_)  # type: ignore[arg-type]
