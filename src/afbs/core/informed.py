"""A stronger reading of projected label distributions, by a server that also uses what it clusters for.

Clients of one cluster draw their labels from one mixture p, so their sketches tell more together than each alone:

1. Their mean is R p, and their spread is R (diag(p) − p pᵀ) Rᵀ / n: both are linear in p once R p is known, and there
   are more equations than labels.                                                                        mixture
2. A client's distribution is then the one near p that its own sketch allows (a least-squares fit).        fitted
3. Counts are whole numbers. A few swaps of samples between labels are tried; where whole counts explain the sketch
   to within its tiny noise, they are almost surely the true ones, and the server can see that they fit.    whole
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from afbs.core.attacks import STIFF, reconstruct

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

FLOOR = 0.01
"""The part of a mixture that is spread evenly, so that no label is ruled out."""
CLOSE = 5.0
"""In standard deviations of the sketch's noise: whole counts that miss by less fit."""
SWAPS = 8
FEW_LABELS = 12
"""Up to this many labels two swaps are tried at once."""


def informed(points: Array, examples: Integers, projection: Array, noise: float, groups: Integers) -> Array:
    """The distributions of all clients; `noise` is a point's standard deviation, `groups` their clusters."""
    alone = reconstruct(points, projection)
    estimates = np.zeros_like(alone)
    for group in np.unique(groups):
        members = groups == group
        shared = mixture(points[members], examples[members], projection)
        estimates[members] = fitted(points[members], examples[members], projection, noise, shared)
    swaps = _swaps(projection.shape[1])
    moves = swaps @ projection.T
    for i, point in enumerate(points):
        for start in (estimates[i], alone[i]):
            counts = whole(start, int(examples[i]), point, projection, swaps, moves)
            if np.abs(projection @ counts / examples[i] - point).max() < CLOSE * noise:
                estimates[i] = counts / examples[i]
                break
    return estimates


def mixture(points: Array, examples: Integers, projection: Array) -> Array:
    """What clients of one cluster draw their labels from, by the mean and the spread of their sketches."""
    from scipy.optimize import nnls

    width, classes = projection.shape
    mean = examples @ points / examples.sum()
    deviations = (points - mean) * np.sqrt(examples)[:, None]
    moments = deviations.T @ deviations / max(1, len(points) - 1) + np.outer(mean, mean)
    upper = np.triu_indices(width)
    squares = np.array([np.outer(column, column)[upper] for column in projection.T]).T
    trust = np.sqrt(len(points) * examples.mean())  # the mean is known that much better than the spread
    system = np.vstack([projection * trust, squares, np.full(classes, STIFF * trust)])
    found = nnls(system, np.concatenate([mean * trust, moments[upper], [STIFF * trust]]))[0]
    return np.asarray(found / found.sum())


def fitted(points: Array, examples: Integers, projection: Array, noise: float | Array, shared: Array) -> Array:
    """Each client's distribution: what its sketch says, and where that says nothing, what its cluster is like.

    `noise` is the standard deviation of the points, of all or of each.
    """
    from scipy.optimize import nnls

    classes = projection.shape[1]
    likely = (1 - FLOOR) * shared + FLOOR / classes
    rows = []
    for point, number, spread in zip(points, examples, np.broadcast_to(noise, len(points)), strict=True):
        weight = np.sqrt(number / likely)
        system = np.vstack([projection / spread, np.full(classes, STIFF / spread), np.diag(weight)])
        row = nnls(system, np.concatenate([point / spread, [STIFF / spread], weight * likely]))[0]
        rows.append(row / row.sum())
    return np.array(rows)


def whole(start: Array, examples: int, point: Array, projection: Array, swaps: Array, moves: Array) -> Array:
    """Whole counts near a start that explain the sketch best: the best swap is made until none helps."""
    counts = np.floor(start * examples)
    short = int(examples - counts.sum())
    counts[np.argsort(counts - start * examples)[:short]] += 1
    missing = point * examples - projection @ counts
    lengths = (moves**2).sum(axis=1)
    for _ in range(SWAPS):
        left = lengths - 2 * (moves @ missing)  # how much longer what is missing gets by each swap, squared
        best = int(left.argmin())
        while left[best] < 0 and (counts + swaps[best] < 0).any():
            left[best] = np.inf
            best = int(left.argmin())
        if left[best] >= 0:
            break
        counts, missing = counts + swaps[best], missing - moves[best]
    return counts


def _swaps(classes: int) -> Array:
    """One sample changes its label; where labels are few, two samples may at once."""
    identity = np.eye(classes)
    single = np.array([identity[a] - identity[b] for a, b in permutations(range(classes), 2)]).reshape(-1, classes)
    if classes > FEW_LABELS:
        return single
    return np.unique(np.vstack([single, *(single + swap for swap in single)]), axis=0)
