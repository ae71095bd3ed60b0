"""FedBuff: Nguyen et al., *Federated Learning with Buffered Asynchronous Aggregation*, arXiv 2106.06639.

    Algorithm 1, line 11     buffer until C updates have arrived            receive
    Section 3                s(τ) = 1/√(1+τ), not normalised by Σ s(τ)      weigh
    Algorithm 1, line 13     w ← w − η_g (1/C) Σ s(τ_i) Δ_i                  apply

Departures: none by default. `staleness = "freshest"` weighs the whole buffer by its freshest update, as AFBS does,
without dropping anything: the ablation that separates AFBS's step size from its selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge, Gt

from afbs.core.buffer import Buffer
from afbs.core.staleness import Discount, discounted_mean
from afbs.core.vectors import descend
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientInfo, Matrix, Memory, Step, Update, Vector


@final
@dataclass(frozen=True)
class FedBuff(Algorithm[Buffer]):
    """Averages updates whenever a buffer is full; stale ones weigh less."""

    buffer_size: Annotated[int, Ge(1)] = 10
    server_lr: Annotated[float, Gt(0)] = 1.0
    staleness: Discount = "each"

    @property
    def quorum(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> Buffer:
        return Buffer()

    def receive(self, state: Buffer, update: Update, key: Key) -> tuple[Buffer, Step | None]:
        buffer = state.add(update)
        return self.stalled(buffer) if buffer.size >= self.buffer_size else (buffer, None)

    def stalled(self, state: Buffer) -> tuple[Buffer, Step | None]:
        return Buffer(), Step(state.updates()) if state.size else None

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return discounted_mean([update.staleness for update in used], self.staleness)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, descend(params, self.server_lr, step.weights, vectors)
