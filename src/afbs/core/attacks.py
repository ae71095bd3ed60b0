"""What a curious server can compute from what it is sent. Pure arithmetic; the mechanisms play the server with it.

Estimates are rows on the simplex, one a client. A server knows each client's number of samples, so an estimate that
is close enough gives the exact label histogram by rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

STIFF = 1e3
"""How hard an estimate is held to add up to one."""


def reconstruct(points: Array, projection: Array) -> Array:
    """The distributions that fit the points best: non-negative least squares with `projection @ x = point`, Σx = 1."""
    from scipy.optimize import nnls

    classes = projection.shape[1]
    system = np.vstack([projection, np.full(classes, STIFF)])
    rows = np.array([nnls(system, np.append(point, STIFF))[0] for point in points]).reshape(-1, classes)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def learned_projection(points: Array, known: Array) -> Array:
    """The projection that explains the points of clients whose distributions are known (least squares, least norm)."""
    return np.asarray(np.linalg.lstsq(known, points, rcond=None)[0].T)


def repeated_points(points: Array, tolerance: float) -> Array:
    """The places at which several clients lie: clients with one label alone all lie on that label's own point."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    pairs = cKDTree(points).query_pairs(tolerance, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points), len(points)))
    _, group_of = connected_components(links, directed=False)
    groups = [points[group_of == group] for group in np.flatnonzero(np.bincount(group_of) > 1)]
    return np.array([group.mean(axis=0) for group in groups]).reshape(-1, points.shape[1])


def total_variation(estimates: Array, truth: Array) -> Array:
    """Half the sum of the differences: 0 if the distributions are equal, 1 if they have nothing in common."""
    return np.asarray(np.abs(estimates - truth).sum(axis=-1) / 2)


def top_label_found(estimates: Array, counts: Integers) -> NDArray[np.bool_]:
    """Whether the most frequent label of the estimate is a most frequent label of the client."""
    guess = estimates.argmax(axis=1)
    return np.asarray(counts[np.arange(len(counts)), guess] == counts.max(axis=1))


def exact_histogram(estimates: Array, counts: Integers) -> NDArray[np.bool_]:
    """Whether rounding the estimate to whole samples gives the client's counts."""
    return np.asarray((np.rint(estimates * counts.sum(axis=1, keepdims=True)) == counts).all(axis=1))


def advantage(without: Array, with_it: Array) -> float:
    """How well a threshold tells two cases apart: true positives less false positives, on draws of a statistic.

    The threshold is chosen on every second draw and judged on the others, so that chance is no success.
    """
    seen = np.unique(np.concatenate([without[::2], with_it[::2]]))
    candidates = np.append((seen[1:] + seen[:-1]) / 2, np.inf)
    gain = _above(with_it[::2], candidates) - _above(without[::2], candidates)
    threshold = candidates[[int(np.argmax(gain))]]
    return float((_above(with_it[1::2], threshold) - _above(without[1::2], threshold))[0])


def _above(draws: Array, thresholds: Array) -> Array:
    return np.asarray(1 - np.searchsorted(np.sort(draws), thresholds, side="left") / len(draws))
