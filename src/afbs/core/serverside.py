"""How the server takes the mean of its updates: as it is, or as the gradient of an optimiser of its own.

Reddi et al., *Adaptive Federated Optimization*, arXiv 2003.00295, with Δ the mean of *start minus end*:

    sgd        w ← w − η Δ                                                    every paper's own rule
    momentum   m ← β m + Δ,             w ← w − η m                           FedAvgM (Hsu et al., arXiv 1909.06335)
    adam       m ← β m + (1 − β) Δ,     w ← w − η m / (√v + ε)                Algorithm 2, FedAdam
               v ← β₂ v + (1 − β₂) Δ²
    yogi       v ← v − (1 − β₂) Δ² sign(v − Δ²), the rest as adam             Algorithm 2, FedYogi

m begins with 0 and v with ε²; nothing is corrected for that, as in the paper. η is `server_lr`, β `server_momentum`,
β₂ `server_beta2` and ε `server_epsilon`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Le, Lt

from afbs.core.vectors import descend, weighted_sum
from afbs.types import Matrix, Memory, Vector

Rule: TypeAlias = Literal["sgd", "momentum", "adam", "yogi"]
Rate: TypeAlias = Annotated[float, Ge(1e-30), Le(1e6)]  # float32 holds it, and its square does not run away
Decay: TypeAlias = Annotated[float, Ge(0), Lt(1)]


class ServerSide(NamedTuple):
    """The settings. What it remembers is handed in and out, under names of its own, for the algorithm's memory."""

    rule: Rule
    rate: float
    momentum: float
    beta2: float
    epsilon: float

    def begin(self, params: Vector) -> Memory:
        if self.rule == "sgd":
            return {}
        first: Memory = {"server/m": np.zeros_like(params)}
        if self.rule == "momentum":
            return first
        return first | {"server/v": np.full_like(params, self.epsilon**2)}

    def mean_step(
        self, memory: Memory, params: Vector, weights: Sequence[float], rows: Matrix
    ) -> tuple[Memory, Vector]:
        """A step along Σ weights[i] · rows[i]."""
        if self.rule == "sgd":
            return {}, descend(params, self.rate, weights, rows)
        return self.step(memory, params, weighted_sum(weights, rows))

    def step(self, memory: Memory, params: Vector, direction: Vector) -> tuple[Memory, Vector]:
        """What to remember, and the next model."""
        if self.rule == "sgd":
            return {}, params - self.rate * direction
        before: Vector = memory["server/m"]
        if self.rule == "momentum":
            m = self.momentum * before + direction
            return {"server/m": m}, params - self.rate * m
        m = self.momentum * before + (1 - self.momentum) * direction
        v: Vector = memory["server/v"]
        square = direction * direction
        if self.rule == "adam":
            v = self.beta2 * v + (1 - self.beta2) * square
        else:
            v = v - (1 - self.beta2) * square * np.sign(v - square)
        return {"server/m": m, "server/v": v}, params - self.rate * m / (v**0.5 + self.epsilon)

    def memory_bytes(self, parameters: int) -> int:
        return 4 * parameters * {"sgd": 0, "momentum": 1, "adam": 2, "yogi": 2}[self.rule]
