"""Arithmetic on flat models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afbs.types import Matrix, Vector


def weighted_sum(weights: Sequence[float], rows: Matrix) -> Vector:
    """Σ weights[i] · rows[i], as one product, in the precision of the rows."""
    factors = np.asarray(weights, rows.dtype)
    # A product with a single row takes numpy four times as long as one with three.
    total: Vector = factors @ rows if len(rows) > 1 else factors[0] * rows[0]
    return total


def descend(params: Vector, rate: float, weights: Sequence[float], rows: Matrix) -> Vector:
    """params − rate · Σ weights[i] · rows[i]. The rate goes into the weights and the sum's memory becomes the result:
    of a large model nothing is read or written once more than it must be."""
    summed = weighted_sum([rate * weight for weight in weights], rows)
    return np.subtract(params, summed, out=summed)


def total(vectors: Sequence[Vector], precision: type[np.floating] | None = None) -> Vector:
    """The sum of vectors, added up in their own precision or a higher one; no copy of them all is made."""
    summed = np.zeros(vectors[0].shape, precision or vectors[0].dtype)
    for vector in vectors:
        summed += vector
    return summed.astype(vectors[0].dtype, copy=False)
