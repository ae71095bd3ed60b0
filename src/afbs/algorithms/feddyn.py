"""FedDyn: Acar et al., *Federated Learning Based on Dynamic Regularization*, ICLR 2021, arXiv 2111.04263.

    Algorithm 1, client      min f_i(θ) − ⟨g_i, θ⟩ + (α/2)‖θ − w‖², then g_i ← g_i − α(θ_i − w)    local
    Algorithm 1, server      a cohort P is asked and all of it awaited          dispatch, receive, lost, woken
    Algorithm 1, server      h ← h + α (1/M) Σ_{i∈P} Δ_i                        apply
    Algorithm 1, server      w ← w − (1/|P|) Σ_{i∈P} Δ_i − h/α                  apply

M are all clients known, asked or not; Δ = w − θ, hence the signs. The first round overshoots the plain average by
the factor 1 + |P|/M: that is the method. g_i never leaves its client.

Departures: one α for every client. The authors' code scales it by the client's share of the data and clips gradients.
`quorum`, `over_selection` and `deadline` end a round before everybody has answered, as in FedAvg's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Annotated, NamedTuple, final

import numpy as np
from annotated_types import Ge, Gt

from afbs.core.cohort import Cohort, Rounds
from afbs.core.local import Dynamic
from afbs.core.vectors import weighted_sum
from afbs.interfaces import Algorithm, Pool
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Order, Step, Update, Vector


class State(NamedTuple):
    clients: frozenset[ClientId]
    cohort: Cohort = Cohort()


@final
@dataclass(frozen=True)
class FedDyn(Algorithm[State]):
    """Synchronous rounds that correct for how far clients drift apart."""

    alpha: Annotated[float, Gt(0)] = 0.1
    """The weight of the correction; try 0.01 and 0.1."""
    quorum: Annotated[int, Ge(0)] = 0
    """How many answers close a round; 0: everybody's."""
    over_selection: Annotated[float, Ge(0)] = 0.0
    """With a quorum, the share by which more are asked; 0: as many as may be under way."""
    deadline: Annotated[float, Gt(0)] = inf
    """Seconds after which a round closes with whoever has answered."""

    @property
    def awaits(self) -> int:
        return max(1, self.quorum)

    @cached_property
    def rounds(self) -> Rounds:
        return Rounds(self.quorum, self.over_selection, self.deadline)

    @property
    def local(self) -> Dynamic:
        return Dynamic(self.alpha)

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State(frozenset(client.id for client in clients))

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(clients=state.clients | {client.id})

    def dispatch(self, state: State, pool: Pool, key: Key) -> tuple[State, list[ClientId]]:
        cohort, chosen = state.cohort.ask(pool, key, self.rounds)
        return State(state.clients, cohort), chosen

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        return self.closed(state, *state.cohort.answered(update, self.rounds))

    def lost(self, state: State, order: Order) -> tuple[State, Step | None]:
        return self.closed(state, *state.cohort.lost(order, self.rounds))

    def wake(self, state: State) -> float | None:
        return state.cohort.wake(self.rounds)

    def woken(self, state: State, time: float, key: Key) -> tuple[State, Step | None]:
        return self.closed(state, *state.cohort.woken())

    def stalled(self, state: State) -> tuple[State, Step | None]:
        return self.closed(state, *state.cohort.stalled())

    def closed(self, state: State, cohort: Cohort, step: Step | None) -> tuple[State, Step | None]:
        noted = None if step is None else step._replace(notes={"clients": len(state.clients)})
        return State(state.clients, cohort), noted

    def begin(self, params: Vector) -> Memory:
        return {"h": np.zeros_like(params)}

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        mean = weighted_sum(step.weights, vectors)
        h = memory["h"] + self.alpha * len(step.used) / step.notes["clients"] * mean
        return {"h": h}, params - mean - h / self.alpha

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters
