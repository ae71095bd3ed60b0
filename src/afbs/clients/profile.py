"""What a client knows of its own labels. The counts stay here; only what a label mechanism makes of them leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afbs.types import ClientId


def label_counts(
    labels: NDArray[np.int64], indices: Sequence[NDArray[np.int64]], classes: int
) -> dict[ClientId, NDArray[np.int64]]:
    """How many samples of each class each client has."""
    return {client: np.bincount(labels[chosen], minlength=classes) for client, chosen in enumerate(indices)}
