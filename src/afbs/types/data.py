"""Samples, whose they are, and who is alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.types.numbers import ClientId


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples and labels, usually memory-mapped, as they are stored: images as uint8 (N, channels, height, width).

    Labels are classes from 0 on, below `classes`; where `classes` is 0 they are numbers, one or a row a sample.

    A model is given `(x / 255 - shift) / scale` where x is uint8 (one shift and scale a channel), `(x - shift) / scale`
    where x is floating, and x itself, as int64, where x holds token ids below `tokens` (0 is padding).
    `owners` says whose sample each training sample is, where the data knows (natural clients). `names` are those of the
    classes and `owner_names` those of the owners, each in the order of their numbers, where there are any.
    """

    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    classes: int
    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    tokens: int = 0
    owners: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()
    owner_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """Who has what: for each client the indices of its training samples.

    `clusters` are the true ones, where clients were made in clusters; no server is told.
    """

    indices: Sequence[NDArray[np.int64]]
    notes: Mapping[str, Any] = field(default_factory=dict)
    clusters: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which clients are alike, as far as a label mechanism let the server see."""

    cluster_of: Mapping[ClientId, int]
    notes: Mapping[str, Any] = field(default_factory=dict)
    centroids: NDArray[np.float64] | None = field(default=None, compare=False)
    """The means of the clusters, in the mechanism's own space; late clients go to the nearest."""
