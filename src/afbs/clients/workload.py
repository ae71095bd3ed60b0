"""Everything a worker must know to train any client: the same for all jobs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from afbs.interfaces import LocalRule, Task
from afbs.tasks.classification import Classification
from afbs.types import ClientId, Dataset, ModelChoice, Training

EVALUATION_PART = 2000
"""Test samples an evaluation task has: small enough to be spread over workers, large enough to be efficient."""
CLIENTS_AT_ONCE = 25
"""Clients whose held-out samples one evaluation task has."""


@dataclass(frozen=True)
class Workload:
    """Sent to each worker once. `held` are the samples that each client does not train on but is tested with."""

    dataset: Dataset
    indices: Sequence[NDArray[np.int64]]
    model: ModelChoice
    training: Training
    rule: LocalRule
    ships: Literal["delta", "end"]
    seed: int
    device: str = "cpu"
    task: Task = field(default_factory=Classification)
    held: Sequence[NDArray[np.int64]] = ()

    @property
    def evaluation_parts(self) -> int:
        return max(1, -(-len(self.dataset.test_y) // EVALUATION_PART))

    @property
    def client_parts(self) -> int:
        return -(-len(self.held) // CLIENTS_AT_ONCE)

    def clients_of(self, part: int) -> list[ClientId]:
        """Those of one part that hold anything out."""
        first = part * CLIENTS_AT_ONCE
        return [
            client for client in range(first, min(first + CLIENTS_AT_ONCE, len(self.held))) if len(self.held[client])
        ]

    @property
    def stateful(self) -> bool:
        """Whether clients remember something from one job to the next."""
        return self.rule.stateful or self.training.remember

    @property
    def usual(self) -> bool:
        """Whether the gradient is one that the native kernels have."""
        return self.task.native and self.training.usual
