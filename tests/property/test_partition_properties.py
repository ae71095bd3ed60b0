"""What every partition promises, and what each one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afbs.interfaces import Partition
from afbs.partitions._apportion import largest_remainder, volumes
from afbs.partitions.clustered import Clustered
from afbs.partitions.dirichlet import Dirichlet
from afbs.partitions.iid import Iid
from afbs.partitions.natural import Natural
from afbs.partitions.pathological import Pathological
from afbs.seeds import Key
from afbs.types import Split, UserError

PARTITIONS: list[Partition] = [
    Clustered(clients=7, clusters=3, min_cluster_share=0.1),
    Clustered(clients=12, clusters=1),
    Clustered(clients=5, clusters=5, alpha=5.0, min_examples=3, volume_sigma=0.0),
    Dirichlet(clients=9, alpha=0.05, min_examples=2),
    Iid(clients=11, volume_sigma=1.5),
    Iid(clients=4, min_examples=5),
    Natural(),
    Pathological(clients=10, classes=2),
    Pathological(clients=4, classes=4),
]


def labels_of(counts: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def split(partition: Partition, labels: np.ndarray, seed: int = 0) -> Split:
    return partition.split(labels, np.arange(len(labels)) % 6, Key.root(seed, "partition"))


@pytest.mark.parametrize("partition", PARTITIONS, ids=repr)
@given(counts=st.lists(st.integers(40, 80), min_size=4, max_size=6), seed=st.integers(0, 2**32))
def test_every_sample_is_dealt_exactly_once_and_everybody_has_one(
    partition: Partition, counts: list[int], seed: int
) -> None:
    labels = labels_of(counts, seed)
    found = split(partition, labels, seed).indices
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(len(labels)))
    assert min(len(part) for part in found) >= getattr(partition, "min_examples", 1)
    assert len(found) == getattr(partition, "clients", 6)
    assert all(part.dtype == np.int64 for part in found)


@pytest.mark.parametrize("partition", PARTITIONS, ids=repr)
def test_the_same_key_gives_the_same_partition(partition: Partition) -> None:
    labels = labels_of([50] * 4, 0)
    one, two = split(partition, labels, 3), split(partition, labels, 3)
    assert all(np.array_equal(a, b) for a, b in zip(one.indices, two.indices, strict=True))
    assert one.notes == two.notes


@pytest.mark.parametrize("partition", [part for part in PARTITIONS if not isinstance(part, Natural)], ids=repr)
def test_another_key_gives_another_partition(partition: Partition) -> None:
    labels = labels_of([50] * 4, 0)
    one, two = split(partition, labels, 3), split(partition, labels, 4)
    assert any(not np.array_equal(a, b) for a, b in zip(one.indices, two.indices, strict=True))


@given(
    total=st.integers(0, 10_000),
    weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40).map(np.array),
)
def test_the_largest_remainder_keeps_the_total_and_stays_within_one(total: int, weights: np.ndarray) -> None:
    numbers = largest_remainder(total, weights)
    assert numbers.sum() == total
    assert (np.abs(numbers - total * weights / weights.sum()) < 1 + 1e-6).all()


def test_the_largest_remainder_worked_by_hand() -> None:
    # 10 in proportions 1 : 2 : 4 are 1.43, 2.86, 5.71: the two largest remainders get the two left over
    assert largest_remainder(10, np.array([1.0, 2.0, 4.0])).tolist() == [1, 3, 6]
    assert largest_remainder(2, np.array([1.0, 1.0, 1.0])).tolist() == [1, 1, 0]


def test_volumes_are_log_normal_of_the_given_spread() -> None:
    drawn = volumes(50_000_000, 20_000, 1, 1.0, np.random.default_rng(0))
    assert np.log(drawn).std() == pytest.approx(1.0, abs=0.02)
    assert volumes(1003, 10, 1, 0.0, np.random.default_rng(0)).tolist() == [101] * 3 + [100] * 7


def test_the_papers_volumes_have_the_papers_mean_and_median() -> None:
    sizes = [len(part) for part in split(Clustered(), labels_of([5000] * 10, 0)).indices]
    assert len(sizes) == 600
    assert np.mean(sizes) == pytest.approx(83.3, abs=0.1)
    assert 45 < np.median(sizes) < 62
    assert 500 < max(sizes) < 2500


def test_one_cluster_is_iid() -> None:
    labels = labels_of([5000] * 10, 0)
    found = split(Clustered(clients=20, volume_sigma=0.0), labels)
    assert found.notes["redraws"] == 0
    for part in found.indices:
        # 2,500 samples of ten equal classes: 250 of each, give or take five standard deviations of 15
        assert np.abs(np.bincount(labels[part], minlength=10) - 250).max() < 75


def test_clients_of_one_cluster_are_alike_and_those_of_two_are_not() -> None:
    labels = labels_of([5000] * 10, 0)
    found = split(Clustered(clients=30, clusters=3, volume_sigma=0.0), labels)
    cluster_of = np.array(found.clusters)
    assert np.bincount(cluster_of).tolist() == [10, 10, 10]
    shares = np.stack([np.bincount(labels[part], minlength=10) / len(part) for part in found.indices])
    distances = np.abs(shares[:, None] - shares[None]).sum(axis=2) / 2
    same = cluster_of[:, None] == cluster_of[None]
    assert distances[same].max() < 0.12
    assert distances[~same].min() > 0.4


def test_the_first_clusters_get_the_clients_that_are_left_over() -> None:
    found = split(Clustered(clients=8, clusters=3, alpha=10.0), labels_of([100] * 4, 0))
    assert found.clusters is not None
    assert np.bincount(found.clusters).tolist() == [3, 3, 2]


def test_ids_tell_nothing_of_the_cluster() -> None:
    found = split(Clustered(clients=60, clusters=2), labels_of([600] * 10, 0))
    clusters = np.array(found.clusters)
    assert 5 < clusters[:30].sum() < 25


def test_no_cluster_has_less_than_its_share_and_redraws_are_counted() -> None:
    labels = labels_of([100] * 10, 0)
    redraws = 0
    for seed in range(20):
        found = split(Clustered(clients=10, clusters=5, min_cluster_share=0.5), labels, seed)
        cluster_of = np.array(found.clusters)
        sizes = np.bincount(cluster_of, [len(part) for part in found.indices])
        assert sizes.min() >= 0.5 * 1000 / 5
        redraws += found.notes["redraws"]
    # a draw fails with probability 0.67, so twenty partitions need about 2 redraws each
    assert 15 < redraws < 90


def test_mean_largest_share_of_a_class_is_the_known_one() -> None:
    labels = labels_of([500] * 10, 0)
    largest = []
    for seed in range(30):
        found = split(Clustered(clients=5, clusters=5, min_cluster_share=0.0), labels, seed)
        counts = np.stack([np.bincount(labels[part], minlength=10) for part in found.indices])
        largest += (counts.max(axis=0) / 500).tolist()
    assert np.mean(largest) == pytest.approx(0.81, abs=0.03)


def test_an_impossible_share_says_what_would_do() -> None:
    with pytest.raises(UserError, match=r"`partition\.min_cluster_share`.*smaller share"):
        split(Clustered(clients=10, clusters=10, min_cluster_share=1.0), labels_of([30] * 3, 0))


def test_too_few_samples_say_what_would_do() -> None:
    labels = labels_of([5, 5], 0)
    with pytest.raises(UserError, match=r"`partition\.clients`: 20 clients with at least 1 of 10 samples"):
        split(Clustered(clients=20), labels)
    for partition in (Iid(clients=6, min_examples=2), Dirichlet(clients=6, min_examples=2)):
        with pytest.raises(UserError, match=r"`partition\.clients`: 6 clients .* at most 5 clients would do"):
            split(partition, labels)


def test_more_clusters_than_clients_are_refused() -> None:
    with pytest.raises(UserError, match=r"`partition\.clusters` must be at most `partition\.clients` \(2\), got 3"):
        Clustered(clients=2, clusters=3)


def test_a_small_alpha_makes_clients_unlike_and_a_large_one_alike() -> None:
    labels = labels_of([1000] * 5, 0)

    def largest_share(alpha: float) -> float:
        parts = split(Dirichlet(clients=10, alpha=alpha), labels).indices
        return float(np.mean([np.bincount(labels[part], minlength=5).max() / len(part) for part in parts]))

    assert largest_share(0.05) > 0.7
    assert largest_share(1000.0) < 0.25


def test_clients_left_with_nothing_are_given_some_and_it_is_noted() -> None:
    found = split(Dirichlet(clients=50, alpha=0.01, min_examples=3), labels_of([200] * 2, 0))
    assert found.notes["moved"] > 50
    assert min(len(part) for part in found.indices) == 3


@given(
    clients=st.integers(2, 20),
    classes=st.integers(1, 5),
    counts=st.lists(st.integers(60, 200), min_size=5, max_size=5),
    seed=st.integers(0, 1000),
)
def test_a_pathological_client_has_exactly_so_many_classes(
    clients: int, classes: int, counts: list[int], seed: int
) -> None:
    labels = labels_of(counts, seed)
    if clients * classes < 5:
        with pytest.raises(UserError, match="at least"):
            split(Pathological(clients, classes), labels, seed)
        return
    for part in split(Pathological(clients, classes), labels, seed).indices:
        assert len(np.unique(labels[part])) == classes


def test_pathological_clients_mix_classes_in_many_ways() -> None:
    labels = labels_of([600] * 10, 0)
    pairs = {tuple(np.unique(labels[part])) for part in split(Pathological(200, 2), labels).indices}
    assert len(pairs) > 35  # of 45


def test_pathological_asks_for_no_more_classes_than_there_are() -> None:
    with pytest.raises(UserError, match=r"`partition\.classes` must be at most 2 for these data, got 3"):
        split(Pathological(4, 3), labels_of([30, 30], 0))
    with pytest.raises(UserError, match=r"class 0 has 3 samples for \d+ clients"):
        split(Pathological(6, 2), labels_of([3, 3], 0))
    with pytest.raises(UserError, match=r"`partition\.clients`: 30 clients with at least 1 of 6 samples each"):
        split(Pathological(30, 2), labels_of([3, 3], 0))


def test_natural_clients_are_the_owners() -> None:
    owners = np.array([5, 2, 5, 9, 2, 5])
    found = Natural().split(np.zeros(6, np.int64), owners, Key.root(0, "partition")).indices
    assert [part.tolist() for part in found] == [[1, 4], [0, 2, 5], [3]]


def test_natural_needs_owners() -> None:
    with pytest.raises(UserError, match="needs data that say whose each sample is"):
        Natural().split(np.zeros(6, np.int64), None, Key.root(0, "partition"))
