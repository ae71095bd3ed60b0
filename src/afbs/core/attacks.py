"""What a curious server can compute from what it is sent. Pure arithmetic; `afbs.privacy._audit` plays the server.

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


def from_bias(change: Array, steps: Array, lr: float) -> Array:
    """The distributions behind the changes of a last layer's bias.

    At the start a model gives every label about the same probability, so each step of gradient descent moves the bias
    by lr · (proportions − 1/d).
    """
    classes = change.shape[1]
    return reconstruct(change / (lr * steps[:, None]) + 1 / classes, np.eye(classes))


def toy_bias_changes(counts: Integers, rng: np.random.Generator, lr: float, epochs: int, batch: int) -> Array:
    """How the last bias of a small network changes when each client trains it: one hidden layer, made-up features.

    For where there are labels but no data. Features are Gaussian around one centre a label.
    """
    classes, features, hidden = counts.shape[1], 20, 32
    centres = rng.normal(size=(classes, features))
    start = [
        rng.uniform(-1, 1, shape) / fan_in**0.5
        for shape, fan_in in (
            ((features, hidden), features),
            ((hidden,), features),
            ((hidden, classes), hidden),
            ((classes,), hidden),
        )
    ]
    changes = []
    for row in counts:
        labels = np.repeat(np.arange(classes), row)
        samples = centres[labels] + rng.normal(size=(len(labels), features))
        end = _trained([part.copy() for part in start], samples, labels, rng, lr, epochs, batch)
        changes.append(end[3] - start[3])
    return np.array(changes)


def _trained(
    model: list[Array], samples: Array, labels: Integers, rng: np.random.Generator, lr: float, epochs: int, batch: int
) -> list[Array]:
    """Plain gradient descent, by hand: softmax regression on rectified features."""
    first, first_bias, last, last_bias = model
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for begin in range(0, len(labels), batch):
            chosen = order[begin : begin + batch]
            x, y = samples[chosen], labels[chosen]
            active = np.maximum(x @ first + first_bias, 0)
            scores = active @ last + last_bias
            error = np.exp(scores - scores.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(len(y)), y] -= 1
            error /= len(y)
            back = (error @ last.T) * (active > 0)
            last -= lr * active.T @ error
            last_bias -= lr * error.sum(axis=0)
            first -= lr * x.T @ back
            first_bias -= lr * back.sum(axis=0)
    return model


def _above(draws: Array, thresholds: Array) -> Array:
    return np.asarray(1 - np.searchsorted(np.sort(draws), thresholds, side="left") / len(draws))
