"""What a client knows of its own labels. The counts stay here; only what a label mechanism makes of them leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.types import ClientId

_BINS = 10


def label_counts(
    labels: NDArray[np.int64], classes: int, indices: Sequence[NDArray[np.int64]]
) -> dict[ClientId, NDArray[np.int64]]:
    """How many samples of each class each client has."""
    return {client: np.bincount(labels[chosen], minlength=classes) for client, chosen in enumerate(indices)}


def strata(labels: NDArray[Any], classes: int) -> tuple[NDArray[np.int64], int]:
    """Labels as classes, and how many there are: where they are numbers, tenths of equal size take their place, of the
    first number of each sample."""
    if classes:
        return labels, classes
    first = labels.reshape(len(labels), -1)[:, 0]
    edges = np.quantile(first, np.linspace(0, 1, _BINS + 1)[1:-1])
    return np.searchsorted(edges, first, "right").astype(np.int64), _BINS
