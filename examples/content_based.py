"""An algorithm of one's own that looks at what it is sent: it drops the updates least like the rest of their buffer.

    python examples/content_based.py

The algorithms that come with the package decide by metadata alone, so a simulation can decide far ahead and never
trains what will be dropped. This one has a method `look`, which turns vectors into a few numbers, and asks for them
when it decides: `update.facts(...)`. Asking makes the updates exist: the plan waits until their jobs have been trained.
That costs parallelism and saves no training, and everything else stays the same. What was seen is in the record, so
that a run can be taken up, or checked, without training anything again.

The class needs nothing from the package but its interface. From a configuration it is
`[algorithm] name = "content_based:DropOutliers"`, wherever Python can import this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt

import afbs
from afbs.core.buffer import Buffer
from afbs.core.vectors import weighted_sum
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientInfo, Facts, Matrix, Memory, Step, Update, Vector


@final
@dataclass(frozen=True)
class DropOutliers(Algorithm[Buffer]):
    """Drops the buffered updates that point least in the direction of the buffer's mean, and averages the others."""

    buffer_size: Annotated[int, Ge(1)] = 10
    outliers: Annotated[int, Ge(0)] = 1
    server_lr: Annotated[float, Gt(0)] = 1.0

    def __post_init__(self) -> None:
        if self.outliers >= self.buffer_size:
            limit = f"below `algorithm.buffer_size` ({self.buffer_size})"
            raise afbs.UserError(f"`algorithm.outliers` must be {limit}, got {self.outliers}.")

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> Buffer:
        return Buffer()

    def receive(self, state: Buffer, update: Update, key: Key) -> tuple[Buffer, Step | None]:
        buffer = state.add(update)
        if buffer.size < self.buffer_size:
            return buffer, None
        updates = buffer.updates()
        alike = update.facts(updates)["alike"]
        ranked = sorted(range(len(updates)), key=lambda i: alike[i])
        out = set(ranked[: self.outliers])
        return Buffer(), Step(
            used=tuple(update for i, update in enumerate(updates) if i not in out),
            dropped=tuple(update for i, update in enumerate(updates) if i in out),
            notes={"least_alike": round(alike[ranked[0]], 4)},
        )

    def look(self, memory: Memory, params: Vector, updates: Sequence[Update], vectors: Matrix) -> Facts:
        return {"alike": similarities(vectors)}

    def stalled(self, state: Buffer) -> tuple[Buffer, Step | None]:
        return Buffer(), Step(state.updates()) if state.size else None

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, params - self.server_lr * weighted_sum(step.weights, vectors)


def similarities(deltas: Matrix) -> list[float]:
    """The cosine between each update and the mean of all; an update that is zero or not finite is like nothing."""
    finite = [bool(np.isfinite(delta).all()) for delta in deltas]
    mean = deltas[finite].mean(axis=0) if any(finite) else np.zeros(deltas.shape[1])
    lengths = np.linalg.norm(deltas, axis=1) * np.linalg.norm(mean)
    return [
        float(delta @ mean / length) if usable and length > 0 else -1.0
        for delta, usable, length in zip(deltas, finite, lengths, strict=True)
    ]


if __name__ == "__main__":
    tables = {
        "name": "drop-outliers",
        "data": {"name": "digits"},
        "model": {"name": "mlp"},
        "partition": {"name": "clustered", "clients": 30, "clusters": 3},
        "run": {"virtual_days": 0.5, "in_flight": 12},
        "training": {"lr": 0.1, "lr_decay_unit": "none"},
        "evaluation": {"points": 10},
    }
    print(afbs.run(tables, algorithm=DropOutliers(buffer_size=5)).summary())
