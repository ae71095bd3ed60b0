"""K-means with reproducible cluster ids, the choice of K, and what happens to clusters later.

Points are rows in the order of client ids, so "the row that comes first" is the smallest id.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

WEAK = 0.25
"""Below this silhouette there is no substantial structure (Kaufman & Rousseeuw, *Finding Groups in Data*, 1990)."""

SAMPLE = 2000
"""The silhouette compares all pairs; beyond this many points it looks at a sample."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The cluster of each point, and the mean of each cluster."""

    labels: NDArray[np.int64]
    centroids: Points


def kmeans(points: Points, number: int, seed: int) -> Partitioned:
    """K-means (k-means++ seeding, 10 starts). Ids are by size, largest first; equal sizes by their first point.

    There are fewer than `number` clusters where there are fewer different points.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    number = min(number, len(np.unique(points, axis=0)))
    if number <= 1:
        return _ordered(points, np.zeros(len(points), dtype=np.int64))
    with threadpool_limits(limits=1):  # sums over threads differ in the last bit, and a tie may then fall otherwise
        fitted = KMeans(number, n_init=10, max_iter=300, tol=1e-4, random_state=seed % 2**32).fit(points)
    return _ordered(points, fitted.labels_.astype(np.int64))


def choose(points: Points, most: int, seed: int) -> int:
    """The number of clusters up to `most` with the best silhouette; 1 where even that is weak."""
    from sklearn.metrics import silhouette_score

    most = min(most, len(np.unique(points, axis=0)) - 1)
    scores = {1: WEAK}
    for number in range(2, most + 1):
        labels = kmeans(points, number, seed).labels
        sample = SAMPLE if len(points) > SAMPLE else None
        scores[number] = silhouette_score(points, labels, sample_size=sample, random_state=seed % 2**32)
    return max(scores, key=lambda number: (scores[number], -number))


def nearest(centroids: Points, point: Points) -> int:
    """The cluster of a point that was not there when the clusters were found; a tie goes to the smaller id."""
    return int(np.argmin(((centroids - point) ** 2).sum(axis=1)))


def renamed(new: Partitioned, old: Points) -> Partitioned:
    """New clusters under the ids of the old ones they lie closest to (Hungarian assignment); further ones come last."""
    from scipy.optimize import linear_sum_assignment

    distance = ((new.centroids[:, None, :] - old[None, :, :]) ** 2).sum(axis=2)
    rows, columns = linear_sum_assignment(distance)
    id_of = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    spare = iter(sorted(set(range(len(new.centroids))) - set(id_of.values())))
    ids = np.array([id_of[i] if i in id_of else next(spare) for i in range(len(new.centroids))])
    if len(new.centroids) < len(old):  # ids stay without gaps
        ids = np.argsort(np.argsort(ids))
    return Partitioned(ids[new.labels], new.centroids[np.argsort(ids)])


def ordered_ids(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same clusters numbered by (size, largest first; then first point)."""
    found, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    rank = {int(found[i]): position for position, i in enumerate(np.lexsort((first, -sizes)))}
    return np.array([rank[int(label)] for label in labels], dtype=np.int64)


def _ordered(points: Points, labels: NDArray[np.int64]) -> Partitioned:
    labels = ordered_ids(labels)
    number = int(labels.max()) + 1 if len(labels) else 0
    return Partitioned(labels, np.array([points[labels == cluster].mean(axis=0) for cluster in range(number)]))
