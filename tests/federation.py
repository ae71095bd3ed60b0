"""The federation of `afbs.testing`, and a small network besides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.testing.federation import (
    Losses,
    Outcome,
    World,
    drive,
    happens,
    infos,
    quadratic,
    unchanged,
)
from afbs.types import ClientId, Vector

__all__ = ["Losses", "Outcome", "World", "drive", "happens", "infos", "network", "quadratic", "unchanged"]


def network(number: int, seed: int) -> World:
    """Two inputs, three tanh units, two classes, cross-entropy; every client has four samples of its own."""
    rng = np.random.default_rng([seed, 3])
    inputs = rng.normal(size=(number, 4, 2))
    labels = rng.integers(2, size=(number, 4))

    def gradient(client: ClientId, params: Vector) -> Vector:
        first, bias, second, shift = params[:6].reshape(2, 3), params[6:9], params[9:15].reshape(3, 2), params[15:]
        x = inputs[client]
        hidden = np.tanh(x @ first + bias)
        scores = hidden @ second + shift
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        error[np.arange(4), labels[client]] -= 1.0
        error /= 4.0
        back = (error @ second.T) * (1.0 - hidden**2)
        parts = (x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
        return np.concatenate([part.ravel() for part in parts])

    start: NDArray[Any] = rng.normal(0.0, 0.7, 17)  # twice the precision of a run, for what is compared exactly
    return World(infos(number, seed), start, gradient)
