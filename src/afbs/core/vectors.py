"""Arithmetic on flat models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afbs.types import Matrix, Vector


def weighted_sum(weights: Sequence[float], rows: Matrix) -> Vector:
    """Σ weights[i] · rows[i], as one product."""
    total: Vector = np.asarray(weights, np.float32) @ rows
    return total
