"""FedAsync: Xie, Koyejo, Gupta, *Asynchronous Federated Optimization*, arXiv 1903.03934.

    Algorithm 1, worker      min f_i(θ) + (ρ/2)‖θ − w‖²                         local
    Algorithm 1, updater     α_t = α s(τ), w ← (1 − α_t) w + α_t θ_i, at every arrival    weigh, apply
    Section 5.2              s(τ) = 1, (τ+1)^−a, or 1 if τ ≤ b else 1/(a(τ−b)+1)    core.staleness.worth

The brake is the pull back to stale models, not the small weight: with mixing a and mean staleness τ the model moves
by a/(1 + aτ) of an update an arrival, never by more than 1/τ.

Departures: none by default. `mode = "delta"` makes it w ← w − α_t Δ_i, another algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Ge, Gt, Le

from afbs.core.local import Proximal
from afbs.core.staleness import Rule, worth
from afbs.interfaces import Algorithm, LocalRule, Plain
from afbs.seeds import Key
from afbs.types import ClientInfo, Matrix, Memory, Step, Update, Vector


@final
@dataclass(frozen=True)
class FedAsync(Algorithm[None]):
    """Mixes every model in as it arrives; stale ones weigh less."""

    holds: ClassVar[bool] = False

    mixing: Annotated[float, Gt(0), Le(1)] = 0.6
    """The weight of a fresh model."""
    discount: Rule = "polynomial"
    """How an update's weight falls with its staleness τ: (τ+1)^−`exponent`, not at all, or by a hinge."""
    exponent: Annotated[float, Ge(0)] = 0.5
    """Of the polynomial."""
    slope: Annotated[float, Gt(0)] = 10.0
    """Of the hinge: 1 up to `grace`, then 1/(`slope`·(τ−`grace`)+1)."""
    grace: Annotated[int, Ge(0)] = 6
    """Up to which staleness the hinge takes nothing off."""
    proximal: Annotated[float, Ge(0)] = 0.005
    """How strongly a client is held to the model it was sent."""
    mode: Literal["model", "delta"] = "model"
    """Mix the model in, or subtract the update: another, much faster algorithm."""

    @property
    def ships(self) -> Literal["delta", "end"]:
        return "end" if self.mode == "model" else "delta"

    @property
    def local(self) -> LocalRule:
        return Proximal(self.proximal) if self.proximal else Plain()

    def init(self, clients: Sequence[ClientInfo]) -> None:
        return None

    def receive(self, state: None, update: Update, key: Key) -> tuple[None, Step]:
        return None, Step((update,))

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        shape = (self.discount, self.exponent, self.slope, self.grace)
        return tuple([self.mixing * worth(update.staleness, *shape) for update in used])

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        (weight,), (vector,) = step.weights, vectors
        if self.mode == "delta":
            return memory, params - weight * vector
        return memory, (1.0 - weight) * params + weight * vector
