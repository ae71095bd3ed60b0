"""Everything a worker must know to train any client: the same for all jobs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from afbs.interfaces import LocalRule
from afbs.types import Dataset, ModelChoice, Training

EVALUATION_PART = 2000
"""Test samples an evaluation task has: small enough to be spread over workers, large enough to be efficient."""


@dataclass(frozen=True)
class Workload:
    """Sent to each worker once."""

    dataset: Dataset
    indices: Sequence[NDArray[np.int64]]
    model: ModelChoice
    training: Training
    rule: LocalRule
    ships: Literal["delta", "end"]
    seed: int
    device: str = "cpu"

    @property
    def evaluation_parts(self) -> int:
        return max(1, -(-len(self.dataset.test_y) // EVALUATION_PART))
