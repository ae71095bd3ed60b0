"""Everybody's samples come from the same bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.interfaces import Partition
from afbs.partitions._apportion import WIDEST, require_samples, volumes
from afbs.seeds import Key
from afbs.types import Split


@final
@dataclass(frozen=True)
class Iid(Partition):
    """Samples dealt at random; equal volumes, or log-normal ones where `volume_sigma` is above 0."""

    clients: Annotated[int, Ge(1)] = 100
    """How many."""
    min_examples: Annotated[int, Ge(1)] = 1
    """The fewest samples of a client."""
    volume_sigma: Annotated[float, Ge(0), Le(WIDEST)] = 0.0
    """The spread of log-normal volumes; 0: all alike."""

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        require_samples(len(labels), self.clients, self.min_examples)
        rng = key.generator()
        sizes = volumes(len(labels), self.clients, self.min_examples, self.volume_sigma, rng)
        parts = np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])
        return Split([np.sort(part) for part in parts])
