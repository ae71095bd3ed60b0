"""The attacks find what they should on cases worked by hand, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from afbs.audit.side_channel import from_bias, toy_bias_changes
from afbs.core import attacks
from afbs.core.clustering import kmeans
from afbs.core.informed import informed, mixture, whole
from afbs.core.sketch import proportions
from afbs.privacy.projection import Projection
from labels import clustered


def projected(counts: np.ndarray, width: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Row means of sketches, written down independently of the mechanism."""
    rng = np.random.default_rng(seed)
    classes = counts.shape[1]
    projection = rng.normal(size=(width, classes)) / width**0.5
    noisy = proportions(counts) + noise / classes**0.5 * rng.normal(size=counts.shape)
    return noisy @ projection.T, projection


def test_total_variation_is_half_the_sum_of_differences() -> None:
    assert attacks.total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])) == pytest.approx(0.5)
    assert attacks.total_variation(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0


def test_a_top_label_counts_as_found_if_it_is_one_of_the_most_frequent() -> None:
    estimates = np.array([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.4, 0.6, 0.0]])
    counts = np.array([[3, 3, 1], [5, 1, 0], [0, 2, 1]])
    assert attacks.top_label_found(estimates, counts).tolist() == [True, False, True]


def test_a_histogram_is_exact_if_rounding_gives_every_count() -> None:
    estimates = np.array([[0.52, 0.48], [0.56, 0.44]])
    assert attacks.exact_histogram(estimates, np.array([[5, 5], [5, 5]])).tolist() == [True, False]


@pytest.mark.parametrize(("classes", "width"), [(4, 3), (10, 9), (2, 1)])
def test_a_width_of_one_less_than_the_labels_is_always_invertible(classes: int, width: int) -> None:
    counts = np.random.default_rng(classes).multinomial(80, np.full(classes, 1 / classes), size=20)
    points, projection = projected(counts, width, noise=0.0)
    assert attacks.exact_histogram(attacks.reconstruct(points, projection), counts).all()


def test_sparse_clients_are_read_far_below_that() -> None:
    counts = 30 * np.eye(10, dtype=np.int64)
    points, projection = projected(counts, 5, noise=1e-3)
    assert attacks.exact_histogram(attacks.reconstruct(points, projection), counts).all()


def test_as_many_known_histograms_as_labels_give_the_projection() -> None:
    counts = np.random.default_rng(0).multinomial(50, np.full(6, 1 / 6), size=12)
    points, projection = projected(counts, 3, noise=0.0)
    assert np.allclose(attacks.learned_projection(points[:6], proportions(counts[:6])), projection)
    assert not np.allclose(attacks.learned_projection(points[:5], proportions(counts[:5])), projection)


def test_clients_with_one_label_lie_on_a_column_of_the_projection() -> None:
    counts = np.array([[9, 0, 0], [4, 0, 0], [0, 7, 0], [0, 1, 0], [2, 3, 4]])
    points, projection = projected(counts, 2, noise=1e-4)
    places = attacks.repeated_points(points, 1e-3)
    assert np.allclose(sorted(places.tolist()), sorted(projection.T[:2].tolist()), atol=1e-3)


def test_where_nobody_repeats_there_are_no_places() -> None:
    assert attacks.repeated_points(np.eye(4), 0.1).shape == (0, 4)


def test_the_advantage_is_one_where_the_draws_are_apart_and_none_where_they_are_alike() -> None:
    rng = np.random.default_rng(0)
    assert attacks.advantage(rng.normal(size=1000), 20 + rng.normal(size=1000)) == 1.0
    assert abs(attacks.advantage(rng.normal(size=4000), rng.normal(size=4000))) < 0.06
    # Two normal distributions one standard deviation apart: 2Φ(1/2) − 1.
    assert attacks.advantage(rng.normal(size=40_000), 1 + rng.normal(size=40_000)) == pytest.approx(0.383, abs=0.02)


def test_one_step_of_the_last_bias_is_the_distribution_less_the_models_guess() -> None:
    shares = np.array([[0.7, 0.2, 0.1]])
    change = 0.01 * 5 * (shares - 1 / 3)
    assert np.allclose(from_bias(change, np.array([5.0]), 0.01), shares)


def test_the_toys_bias_moves_by_the_gradient_it_should() -> None:
    """One step on one client: the change of the bias is lr · (proportions − mean softmax), and the latter sums to 1."""
    counts = np.array([[30, 10, 0], [0, 0, 25]])
    changes = toy_bias_changes(counts, np.random.default_rng(0), lr=0.1, epochs=1, batch=1000)
    guesses = proportions(counts) - changes / 0.1
    assert np.allclose(guesses.sum(axis=1), 1.0)
    assert (guesses > 0).all()


def test_a_plain_update_gives_the_main_label_away() -> None:
    counts, _ = clustered(5, clients=60, each=500)
    table = np.array(list(counts.values()))
    changes = toy_bias_changes(table, np.random.default_rng(0), lr=0.01, epochs=5, batch=64)
    estimates = from_bias(changes, 5.0 * -(-table.sum(axis=1) // 64), 0.01)
    assert attacks.top_label_found(estimates, table).mean() > 0.85
    assert attacks.total_variation(estimates, proportions(table)).mean() < 0.15


def test_a_clusters_sketches_together_give_its_mixture() -> None:
    """Five numbers a client cannot give ten shares; the mean and the spread of many clients can."""
    rng = np.random.default_rng(1)
    shared = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05, 0.0, 0.0])
    sizes = rng.integers(20, 200, size=400)
    counts = np.array([rng.multinomial(size, shared) for size in sizes])
    points, projection = projected(counts, 5, noise=1e-3)
    found = mixture(points, sizes, projection)
    assert attacks.total_variation(found, shared) < 0.08
    alone = attacks.reconstruct(points.mean(axis=0, keepdims=True), projection)[0]
    assert attacks.total_variation(found, shared) < attacks.total_variation(alone, shared) / 2


def test_whole_counts_are_found_from_a_start_that_is_a_few_samples_off() -> None:
    rng = np.random.default_rng(2)
    counts = np.array([12, 0, 7, 3, 0, 8])
    projection = rng.normal(size=(3, 6))
    identity = np.eye(6)
    swaps = np.array([identity[a] - identity[b] for a in range(6) for b in range(6) if a != b])
    start = (counts + np.array([1, 0, 0, 0, 0, -1])) / 30
    assert (
        whole(start, 30, projection @ counts / 30, projection, swaps, swaps @ projection.T).tolist() == counts.tolist()
    )


@pytest.mark.parametrize("clusters", [3, 5])
def test_a_server_that_uses_the_clusters_reads_more(clusters: int) -> None:
    counts, _ = clustered(clusters, clients=300, each=2500)
    table = np.array(list(counts.values()))
    mechanism = Projection()
    projection = mechanism.projection(b"k" * 32, 10)
    rng = np.random.default_rng(0)
    points = (proportions(table) + 1e-3 / 10**0.5 * rng.normal(size=table.shape)) @ projection.T
    groups = kmeans(points, clusters, 0).labels
    together = informed(points, table.sum(axis=1), projection, 1e-3 / 5**0.5, groups)
    alone = attacks.reconstruct(points, projection)
    for measure in (attacks.top_label_found, attacks.exact_histogram):
        assert measure(together, table).mean() > measure(alone, table).mean()
    assert attacks.top_label_found(together, table).mean() > 0.85
    assert attacks.exact_histogram(together, table).mean() > 0.5
