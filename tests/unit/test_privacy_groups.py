"""What every mechanism does with clients: groups them, refuses some, takes late ones in, clusters again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from afbs import registry
from afbs.privacy.dp import DifferentiallyPrivate
from afbs.privacy.halves import TwoHalves, converse, examples_of
from afbs.privacy.keys import simulated
from afbs.privacy.messages import RefusedError, packed, unpacked
from afbs.privacy.none import NoLabels
from afbs.privacy.plain_for_research import PlainForResearch
from afbs.privacy.projection import Projection
from afbs.privacy.secure import Secure
from afbs.seeds import Key
from afbs.types import Grouping, UserError
from labels import clustered

KEY = Key.root(7, "clusters")
SECURE = Secure(number=3, starts=2, steps=4, neighbours=4, noise=0.2)
ASKING = [Projection(number=3), DifferentiallyPrivate(number=3, epsilon=8.0), PlainForResearch(number=3), SECURE]
NAMES = ["projection", "dp", "plain_for_research", "secure"]
LIES: dict[str, Any] = {
    "negative": [-5, 10, 3, 0, 0, 0, 0, 0, 0, 1],
    "not finite": [np.nan, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    "too short": [3, 4, 5],
    "too long": [1] * 11,
    "huge": [2.0**60] + [0] * 9,
    "infinite": [np.inf] + [0] * 9,
    "nothing": [0] * 10,
    "a table": [[1, 2], [3, 4]],
    "not whole": [0.5] * 10,
}


@pytest.fixture(scope="module")
def population() -> tuple[dict[int, np.ndarray], list[int]]:
    return clustered(3, seed=3, clients=45, each=600)


def talk(mechanism: TwoHalves, counts: dict[int, Any], before: Grouping | None = None) -> Grouping:
    clients = {client: mechanism.client(client, row, simulated(KEY, client)) for client, row in counts.items()}
    return converse(mechanism.found(examples_of(counts), 10, KEY.child(2), 10, before), clients)


def test_the_names_warn_whoever_picks_a_weak_one() -> None:
    assert registry.names("clusters") == ["dp", "none", "plain_for_research", "projection", "secure"]
    for name in registry.names("clusters"):
        assert "encrypt" not in registry.summary(registry.find("clusters", name)).lower()


@pytest.mark.parametrize("module", ["halves", "messages", "keys", "exposure"])
def test_what_mechanisms_share_is_not_taken_for_one(module: str) -> None:
    with pytest.raises(UserError, match=f"no clusters called '{module}'; there are: dp, none, plain_for_research"):
        registry.find("clusters", module)


@pytest.mark.parametrize("mechanism", ASKING, ids=NAMES)
def test_alike_clients_are_grouped(mechanism: Any, population: Any) -> None:
    counts, truth = population
    found = mechanism.group(counts, KEY)
    assert list(found.cluster_of) == sorted(counts)
    assert adjusted_rand_score(truth, list(found.cluster_of.values())) > 0.8
    sizes = np.bincount(list(found.cluster_of.values()))
    assert list(sizes) == sorted(sizes, reverse=True)


@pytest.mark.parametrize("mechanism", ASKING, ids=NAMES)
def test_the_same_key_gives_the_same_groups(mechanism: Any, population: Any) -> None:
    counts, _ = population
    one, other = mechanism.group(counts, KEY), mechanism.group(dict(reversed(counts.items())), KEY)
    assert one == other


@pytest.mark.parametrize("mechanism", ASKING, ids=NAMES)
def test_the_notes_name_the_mechanism_and_what_was_released_but_no_counts(mechanism: Any, population: Any) -> None:
    counts, _ = population
    notes = mechanism.group(counts, KEY).notes
    written = json.dumps(notes)
    assert notes["mechanism"] in NAMES
    assert notes["released"]["what"]
    assert notes["released"]["protects"]
    for row in counts.values():
        assert json.dumps(row.tolist()) not in written


@pytest.mark.parametrize(
    ("mechanism", "lie"),
    [(mechanism, lie) for mechanism in ASKING for lie in LIES],
    ids=[f"{name}-{lie}" for name in NAMES for lie in LIES],
)
def test_a_client_that_lies_is_refused_with_a_reason_and_changes_nobody_elses_cluster(
    mechanism: Any, lie: str, population: Any
) -> None:
    counts, _ = population
    honest = mechanism.group(counts, KEY)
    with_liar = mechanism.group({**counts, 45: np.array(LIES[lie])}, KEY)
    assert with_liar.cluster_of[45] == 3 == with_liar.notes["unknown_cluster"]
    assert list(with_liar.notes["refused"]) == [45]
    assert len(with_liar.notes["refused"][45]) > 10
    assert {client: with_liar.cluster_of[client] for client in counts} == honest.cluster_of


@pytest.mark.parametrize("mechanism", ASKING, ids=NAMES)
def test_clients_that_refuse_share_one_cluster(mechanism: Any, population: Any) -> None:
    counts, _ = population

    class Silent:
        def answer(self, question: Any) -> Any:
            raise RefusedError("does not take part")

    clients = {client: mechanism.client(client, row, simulated(KEY, client)) for client, row in counts.items()}
    clients |= {3: Silent(), 17: Silent()}
    found = converse(mechanism.found(examples_of(counts), 10, KEY.child(2)), clients)
    assert found.cluster_of[3] == found.cluster_of[17] == 3
    assert found.notes["refused"] == {3: "does not take part", 17: "does not take part"}
    assert set(found.cluster_of.values()) == {0, 1, 2, 3}


@pytest.mark.parametrize("mechanism", ASKING, ids=NAMES)
def test_a_late_client_goes_to_the_nearest_centroid_and_moves_nobody(mechanism: Any, population: Any) -> None:
    counts, truth = population
    late = max(counts, key=lambda client: counts[client].sum())
    rest = {client: row for client, row in counts.items() if client != late}
    before = talk(mechanism, rest)
    halves = {late: mechanism.client(late, counts[late], simulated(KEY, late))}
    after = converse(mechanism.admit(before, {late: int(counts[late].sum())}, 10), halves)
    assert {client: after.cluster_of[client] for client in rest} == before.cluster_of
    mates = [before.cluster_of[client] for client in rest if truth[client] == truth[late]]
    assert after.cluster_of[late] == max(set(mates), key=mates.count)


def test_a_late_client_that_lies_joins_the_unknown(population: Any) -> None:
    counts, _ = population
    before = talk(ASKING[0], counts)
    halves = {99: ASKING[0].client(99, np.array([-1] * 10), simulated(KEY, 99))}
    after = converse(ASKING[0].admit(before, {99: 10}, 10), halves)
    assert after.cluster_of[99] == 3
    assert "negative" in after.notes["refused"][99]


@pytest.mark.parametrize(
    "mechanism",
    [
        DifferentiallyPrivate(number=3, epsilon=8.0, releases=2),
        Secure(number=3, starts=3, steps=5, neighbours=6, noise=0.2, releases=2),
    ],
    ids=["dp", "secure"],
)
def test_a_planned_second_clustering_keeps_the_ids_and_a_third_is_refused(mechanism: Any, population: Any) -> None:
    counts, _ = population
    first = talk(mechanism, counts)
    second = talk(mechanism, counts, first)
    agreeing = [first.cluster_of[client] == second.cluster_of[client] for client in counts]
    assert np.mean(agreeing) > 0.85
    assert second.notes["releases"] == 2
    with pytest.raises(UserError, match=r"no client took part.*planned"):
        talk(mechanism, counts, second)


def test_one_cluster_asks_nobody() -> None:
    class Unasked(dict[int, Any]):
        def items(self) -> Any:
            raise AssertionError("somebody was asked")

    for mechanism in (Projection(), DifferentiallyPrivate(), Secure(), NoLabels()):
        found = mechanism.group(Unasked({0: [1], 1: [2]}), KEY)
        assert found.cluster_of == {0: 0, 1: 0}
        assert found.notes["released"]["what"] == "nothing"


@pytest.mark.parametrize("mechanism", [Projection(number=4), Secure(number=4)], ids=["projection", "secure"])
def test_more_clusters_than_clients_are_a_users_mistake(mechanism: Any) -> None:
    with pytest.raises(UserError, match=r"`clusters.number` must not be above the number of clients \(3\), got 4"):
        mechanism.group({i: np.array([1, i]) for i in range(3)}, KEY)


def test_the_number_of_clusters_is_chosen_within_half_the_buffer(population: Any) -> None:
    counts, _ = population
    mechanism = PlainForResearch(number=0)
    assert mechanism.group(counts, KEY, most=5).notes["number"] == 3
    assert mechanism.group(counts, KEY, most=2).notes["number"] == 2
    assert mechanism.group(counts, KEY, most=5).notes["chosen_by"] == "silhouette"


def test_the_record_states_epsilon_delta_and_adjacency(population: Any) -> None:
    counts, _ = population
    released = DifferentiallyPrivate(number=3, epsilon=1.5, delta=1e-6).group(counts, KEY).notes["released"]
    assert (released["epsilon"], released["delta"]) == (1.5, 1e-6)
    assert released["adjacency"].startswith("replace one sample")
    assert "not the client's main label" in released["protects"]


@pytest.mark.parametrize(
    ("mechanism", "sketch", "reason"),
    [
        (Projection(), np.full((10, 5), np.nan), "not finite"),
        (Projection(), np.zeros((10, 4)), "10 rows of 5"),
        (Projection(), np.full((10, 5), 1e6), "larger"),
        (Projection(), np.eye(10)[:, :5], "copies"),
        (Projection(), np.array(["x"] * 10), "not made of numbers"),
        (DifferentiallyPrivate(), np.full(10, -1e3), "further out"),
        (DifferentiallyPrivate(), np.array([1e9] + [0.0] * 9), "further out"),
        (DifferentiallyPrivate(), np.full(10, 60.0), "add up"),
        (PlainForResearch(), np.full(10, 60.0), "add up"),
        (PlainForResearch(), np.full(10, 5.5), "whole"),
    ],
)
def test_a_message_that_no_honest_client_sends_is_refused(mechanism: Any, sketch: np.ndarray, reason: str) -> None:
    """A liar need not run our client: the server looks at what it is sent."""
    with pytest.raises(RefusedError, match=reason):
        mechanism._point({"sketch": sketch}, 55, 10)


def test_what_an_honest_client_sends_is_never_refused() -> None:
    rng = np.random.default_rng(0)
    for trial in range(300):
        counts = rng.multinomial(int(rng.integers(1, 400)), rng.dirichlet(np.full(10, 0.1)))
        for mechanism in (Projection(), Projection(noise=0.1), DifferentiallyPrivate(epsilon=0.3), PlainForResearch()):
            sketch = mechanism.sketch(counts, simulated(KEY, trial), 0)
            point = mechanism._point({"sketch": sketch}, int(counts.sum()), 10)
            assert point.shape == ((5,) if isinstance(mechanism, Projection) else (10,))


def restored(half: Any, mechanism: Any, counts: np.ndarray) -> Any:
    return mechanism.client(0, counts, simulated(KEY, 0), unpacked(packed(half.remembered())))


def test_a_restored_client_gives_the_same_noisy_counts_and_refuses_the_same(population: Any) -> None:
    counts = population[0][0]
    mechanism = DifferentiallyPrivate(number=3, releases=2)
    half = mechanism.client(0, counts, simulated(KEY, 0))
    first = half.answer({"release": np.array(0)})["sketch"]
    other = restored(half, mechanism, counts)
    assert np.array_equal(other.answer({"release": np.array(0)})["sketch"], first)
    with pytest.raises(RefusedError, match="planned for 2"):
        other.answer({"release": np.array(2)})


def test_a_release_of_changed_labels_would_be_one_more_and_is_refused(population: Any) -> None:
    """The noise is other where the counts are, so two answers would halve its variance."""
    counts = population[0][0]
    mechanism = DifferentiallyPrivate(number=3, releases=2)
    half = mechanism.client(0, counts, simulated(KEY, 0))
    half.answer({"release": np.array(0)})
    changed = restored(half, mechanism, counts + 1)
    with pytest.raises(RefusedError, match="labels changed"):
        changed.answer({"release": np.array(0)})
    changed.answer({"release": np.array(1)})  # planned, and not given yet


@pytest.mark.parametrize("mechanism", [Projection(number=3), PlainForResearch(number=3)], ids=NAMES[::2])
def test_where_nothing_is_promised_changed_labels_may_be_sent_again(mechanism: Any, population: Any) -> None:
    counts = population[0][0]
    half = mechanism.client(0, counts, simulated(KEY, 0))
    half.answer({"release": np.array(0)})
    restored(half, mechanism, counts + 1).answer({"release": np.array(0)})


@pytest.mark.parametrize("release", [np.array(-1), np.array(0.5), np.array(np.nan), np.array([0]), "0", None, True])
def test_a_release_that_is_no_number_is_refused(release: Any, population: Any) -> None:
    half = DifferentiallyPrivate(number=3).client(0, population[0][0], simulated(KEY, 0))
    with pytest.raises(RefusedError, match="the release"):
        half.answer({"release": release})
