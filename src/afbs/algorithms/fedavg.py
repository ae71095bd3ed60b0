"""FedAvg: McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*,
arXiv 1602.05629.

    Algorithm 1, server      a cohort is asked and all of it awaited        dispatch, receive, lost
    Algorithm 1, server      w ← Σ (n_i / Σ n_j) w_i, here w ← w − Σ (n_i / Σ n_j) Δ_i    weigh, apply

Departures: none by default; `average = "uniform"` gives every client the same weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

from annotated_types import Gt

from afbs.core.cohort import Cohort
from afbs.core.vectors import descend
from afbs.interfaces import Algorithm, Pool
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector


@final
@dataclass(frozen=True)
class FedAvg(Algorithm[Cohort]):
    """Synchronous rounds: waits for a cohort, averages by data size."""

    average: Literal["weighted", "uniform"] = "weighted"
    server_lr: Annotated[float, Gt(0)] = 1.0

    def init(self, clients: Sequence[ClientInfo]) -> Cohort:
        return Cohort()

    def dispatch(self, state: Cohort, pool: Pool, key: Key) -> tuple[Cohort, list[ClientId]]:
        return state.ask(pool, key)

    def receive(self, state: Cohort, update: Update, key: Key) -> tuple[Cohort, Step | None]:
        return state.answered(update)

    def lost(self, state: Cohort, client: ClientId) -> tuple[Cohort, Step | None]:
        return state.lost()

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        sizes = [update.examples if self.average == "weighted" else 1 for update in used]
        return tuple(size / sum(sizes) for size in sizes)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, descend(params, self.server_lr, step.weights, vectors)
