"""FADAS: Wang, Wang, Lu, Chen, *FADAS: Towards Federated Adaptive Asynchronous Optimization*, ICML 2024,
arXiv 2407.18365.

    Algorithm 1, buffer      until C updates have arrived: Δ = (1/C) Σ Δ_i                    receive, weigh
    Algorithm 1, moments     m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ², v̂ ← max(v̂, v)     apply
    Algorithm 1, server      w ← w − η m / (√v̂ + ε)                                           apply
    Algorithm 1, delays      η_t = η if τ_max ≤ τ_c else min(η, 1/τ_max)                      rate

τ_max is the largest staleness in the buffer. Δ is *start minus end*, hence the minus. Moments begin with 0 and are not
corrected for that.

Departures: none known. It was written from summaries of the paper that quote these equations, not from its own text.
τ_c is infinite by default, which is FADAS without its delay-adaptive rate; the paper tunes η and τ_c by task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from afbs.core.buffer import Buffer
from afbs.core.serverside import Decay, Rate
from afbs.core.vectors import weighted_sum
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientInfo, Matrix, Memory, Step, Update, Vector


@final
@dataclass(frozen=True)
class FADAS(Algorithm[Buffer]):
    """A buffer, and AMSGrad on the server; long delays shorten its steps."""

    buffer_size: Annotated[int, Ge(1)] = 10
    """How many updates fill the buffer."""
    adaptive_lr: Rate = 0.01
    """About how far each number of the model moves in a step."""
    delay_threshold: Annotated[float, Ge(0)] = inf
    """Where the stalest update of a buffer is staler, the step is at most 1/τ_max."""
    server_momentum: Decay = 0.9
    """β₁: how much of the last direction is kept."""
    server_beta2: Decay = 0.99
    """β₂: the same for the mean of squares."""
    server_epsilon: Rate = 1e-3
    """ε: added to the root of that before it divides."""

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> Buffer:
        return Buffer()

    def receive(self, state: Buffer, update: Update, key: Key) -> tuple[Buffer, Step | None]:
        buffer = state.add(update)
        return self.stalled(buffer) if buffer.size >= self.buffer_size else (buffer, None)

    def stalled(self, state: Buffer) -> tuple[Buffer, Step | None]:
        return Buffer(), state.step()

    def rate(self, longest_delay: int) -> float:
        return self.adaptive_lr if longest_delay <= self.delay_threshold else min(self.adaptive_lr, 1 / longest_delay)

    def begin(self, params: Vector) -> Memory:
        return {name: np.zeros_like(params) for name in ("m", "v", "largest")}

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        mean = weighted_sum(step.weights, vectors)
        m: Vector = self.server_momentum * memory["m"] + (1 - self.server_momentum) * mean
        v: Vector = self.server_beta2 * memory["v"] + (1 - self.server_beta2) * mean * mean
        largest: Vector = np.maximum(memory["largest"], v)
        rate = self.rate(max(update.staleness for update in step.used))
        return {"m": m, "v": v, "largest": largest}, params - rate * m / (largest**0.5 + self.server_epsilon)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters * 3
