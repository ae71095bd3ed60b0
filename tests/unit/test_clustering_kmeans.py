from __future__ import annotations

import numpy as np
import pytest

from afbs.core.clustering import Partitioned, choose, kmeans, nearest, ordered_ids, renamed

CORNERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def around(corners: list[int], seed: int = 0) -> np.ndarray:
    return CORNERS[corners] + 0.1 * np.random.default_rng(seed).normal(size=(len(corners), 2))


def test_clusters_are_numbered_by_size_and_then_by_their_first_point() -> None:
    found = kmeans(around([2, 1, 1, 0, 2, 1]), 3, seed=5)
    assert found.labels.tolist() == [1, 0, 0, 2, 1, 0]
    assert np.allclose(found.centroids, CORNERS[[1, 2, 0]], atol=0.2)


def test_of_equally_large_clusters_the_one_with_the_first_point_comes_first() -> None:
    assert ordered_ids(np.array([7, 3, 3, 7, 5])).tolist() == [0, 1, 1, 0, 2]


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_ids_do_not_depend_on_the_seed_where_clusters_are_clear(seed: int) -> None:
    points = around([0, 0, 0, 1, 1, 2])
    assert kmeans(points, 3, seed).labels.tolist() == [0, 0, 0, 1, 1, 2]


def test_the_same_points_give_the_same_clusters() -> None:
    points = np.random.default_rng(3).normal(size=(200, 4))
    assert np.array_equal(kmeans(points, 5, 9).labels, kmeans(points.copy(), 5, 9).labels)


def test_fewer_different_points_than_clusters_give_fewer_clusters() -> None:
    found = kmeans(CORNERS[[0, 0, 1, 1, 1]], 4, seed=1)
    assert found.labels.tolist() == [1, 1, 0, 0, 0]
    assert len(found.centroids) == 2


def test_one_cluster_is_everything() -> None:
    points = around([0, 1, 2])
    found = kmeans(points, 1, seed=1)
    assert found.labels.tolist() == [0, 0, 0]
    assert np.allclose(found.centroids, points.mean(axis=0))


def test_the_silhouette_finds_three_clear_clusters() -> None:
    assert choose(around([0] * 10 + [1] * 8 + [2] * 6), most=8, seed=1) == 3


def test_the_choice_keeps_to_the_bound() -> None:
    assert choose(around([0] * 10 + [1] * 8 + [2] * 6), most=2, seed=1) == 2


def test_points_without_structure_are_one_cluster() -> None:
    points = np.random.default_rng(0).normal(size=(300, 8))
    assert choose(points, most=6, seed=1) == 1


def test_one_point_is_one_cluster() -> None:
    assert choose(np.ones((1, 3)), most=5, seed=1) == 1


def test_a_late_point_goes_to_the_nearest_centroid() -> None:
    assert nearest(CORNERS, np.array([1.0, 7.0])) == 2
    assert nearest(CORNERS, np.array([5.0, 0.0])) == 0  # a tie: the smaller id


def test_clusters_found_again_keep_their_ids() -> None:
    new = Partitioned(np.array([0, 1, 2, 0]), CORNERS[[2, 0, 1]] + 0.5)
    again = renamed(new, CORNERS)
    assert again.labels.tolist() == [2, 0, 1, 2]
    assert np.allclose(again.centroids, CORNERS + 0.5)


def test_a_further_cluster_gets_the_next_id() -> None:
    new = Partitioned(np.array([0, 1, 2]), CORNERS[[2, 1, 0]])
    again = renamed(new, CORNERS[:2])
    assert again.labels.tolist() == [2, 1, 0]


def test_a_lost_cluster_leaves_no_gap() -> None:
    again = renamed(Partitioned(np.array([0, 1]), CORNERS[[2, 0]]), CORNERS)
    assert again.labels.tolist() == [1, 0]
    assert np.allclose(again.centroids, CORNERS[[0, 2]])
