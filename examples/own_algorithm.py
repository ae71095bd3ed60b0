"""An algorithm of your own: a buffer whose weights fall off at a half-life that you choose.

    python examples/own_algorithm.py
    afbs run examples/own_algorithm.toml          # the same class, named in a configuration

An algorithm is a frozen dataclass. Its fields are its settings: annotate ranges, and a wrong value in a configuration
gets a clear error. `receive` decides by metadata alone and returns a step or nothing; `weigh` says how much each
update counts; `apply` is given the vectors; `stalled` steps with what there is when nobody else can come. Nothing in
the package has to be edited, and `afbs.testing.check_algorithm(HalfLife())` says whether anything was forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt

import afbs
from afbs import Algorithm, ClientInfo, Key, Matrix, Memory, Step, Update, Vector


@dataclass(frozen=True)
class HalfLife(Algorithm[tuple[Update, ...]]):
    """Averages a full buffer; an update loses half of its weight every `half_life` versions that it is late."""

    buffer_size: Annotated[int, Ge(1)] = 5
    half_life: Annotated[float, Gt(0)] = 2.0

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> tuple[Update, ...]:
        return ()

    def receive(self, state: tuple[Update, ...], update: Update, key: Key) -> tuple[tuple[Update, ...], Step | None]:
        buffer = (*state, update)
        return ((), Step(used=buffer)) if len(buffer) == self.buffer_size else (buffer, None)

    def stalled(self, state: tuple[Update, ...]) -> tuple[tuple[Update, ...], Step | None]:
        return (), Step(used=state) if state else None

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return tuple(0.5 ** (update.staleness / self.half_life) / len(used) for update in used)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        change = sum(weight * vector for weight, vector in zip(step.weights, vectors, strict=True))
        return memory, (params - change).astype(params.dtype)


if __name__ == "__main__":
    result = afbs.run(Path(__file__).with_suffix(".toml"), algorithm=HalfLife(half_life=4.0))
    print(f"{result.best:.1%} after {result.history.version.iloc[-1]} versions, in {result.folder}")
