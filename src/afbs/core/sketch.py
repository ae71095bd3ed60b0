"""The paper's sketch of a label distribution: tiled, noised, projected.

It is a lossy projection. It is not confidential against whoever knows the projection: `afbs audit` measures that.

    A ∈ R^d       label proportions                                  proportions
    1_d A + G     d copies, each with its own noise N(0, σ²)          tiled
    (…) Rᵀ        R ∈ R^{k×d} with entries N(0, 1/k)                  project
    row mean      the d rows are noisy copies of one vector           row_mean
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def proportions(counts: ArrayLike) -> Array:
    """Proportions, not counts: else the volume would dominate every distance."""
    row = np.asarray(counts, dtype=np.float64)
    return np.asarray(row / row.sum(axis=-1, keepdims=True))


def width(classes: int) -> int:
    """How many numbers each copy is projected to where nothing is said: half as many as there are labels."""
    return max(1, (classes + 1) // 2)


def tiled(distribution: Array, noise: Array) -> Array:
    """d rows, each the distribution with its own noise. Its rank is d with probability one."""
    return distribution[None, :] + noise


def project(rows: Array, projection: Array) -> Array:
    return np.asarray(rows @ projection.T)


def row_mean(sketch: Array) -> Array:
    """What the server clusters. Flattening gives the same distances with √d more noise and d times more numbers."""
    return np.asarray(sketch.mean(axis=0))
