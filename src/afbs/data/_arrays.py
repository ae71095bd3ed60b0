"""Small facts about arrays of samples and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLAT = float(np.finfo(np.float32).tiny)
"""A feature that varies by less is constant: dividing by it would leave nothing finite."""


def every_fifth(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices to train on and to test on: of each class every fifth sample is for testing. Nothing is drawn."""
    rank = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    test = rank % 5 == 4
    return np.flatnonzero(~test), np.flatnonzero(test)


def channel_moments(images: NDArray[Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of (N, channels, ...) or feature of (N, features).

    They are those of x / 255 where x is uint8.
    """
    unit = 255.0 if images.dtype == np.uint8 else 1.0
    others = tuple(axis for axis in range(images.ndim) if axis != 1)
    total = np.zeros(images.shape[1])
    squares = np.zeros(images.shape[1])
    for start in range(0, len(images), 4096):
        part = images[start : start + 4096].astype(np.float64)
        total += part.sum(axis=others)
        squares += (part * part).sum(axis=others)
    count = max(1, images.size // images.shape[1])
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0.0))
    scale = np.where(deviation > _FLAT, deviation / unit, 1.0)
    return tuple(map(float, mean / unit)), tuple(map(float, scale))
