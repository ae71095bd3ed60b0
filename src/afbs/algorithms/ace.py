"""ACE: Chang et al., *Mitigating Participation Imbalance Bias in Asynchronous Federated Learning*, arXiv 2511.19066.

    Algorithm 1, cache       U_j ← what client j has just sent, at every arrival       receive, apply
    Algorithm 1, server      u = (1/n) Σ_i U_i over all n clients, w ← w − η u         apply
    ACED                     over those whose U_i began at most τ versions ago, and divided by their number;
                             nothing happens if there are none                         `max_staleness`

Nobody is ever waited for, and yet every step is the mean of everybody's latest. As there is a step at every arrival,
η must be small: with A clients under way, η = 1/A moves the model by about one whole mean while everybody answers once.

The server keeps Σ U_i, adds each arrival's difference to it, and sums it anew every 1,000 versions. Memory: one model
for every client heard of.

Departures: it was written from the paper's abstract and its first author's code (there still called StaleSGD and
AC-AFL), not from its text. The paper begins with an update of every client; here a client never heard of counts as
zero (for ACED: not at all), so the first steps are small. In the paper everybody is always under way, here as many as
`run.in_flight` says. An arrival that is itself staler than `max_staleness` makes no step; it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from annotated_types import Ge

from afbs.core.serverside import Rate
from afbs.core.vectors import total
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector

RENEWED_EVERY = 1000


class State(NamedTuple):
    clients: frozenset[ClientId]
    refused: tuple[Update, ...] = ()


@final
@dataclass(frozen=True)
class ACE(Algorithm[State]):
    """Steps at every arrival, along the mean of everybody's latest update."""

    holds: ClassVar[bool] = False

    arrival_lr: Rate = 0.1
    """The step at every arrival; 1/(clients under way) is about one mean update while all answer once."""
    max_staleness: Annotated[float, Ge(0)] = inf
    """A latest update that began more versions ago no longer counts (the paper's ACED)."""

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State(frozenset(client.id for client in clients))

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(clients=state.clients | {client.id})

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        if self.max_staleness < inf and update.staleness > self.max_staleness:
            return state._replace(refused=(*state.refused, update)), None
        why = ("in time",) + ("too stale",) * len(state.refused) if state.refused else ()
        return State(state.clients), Step((update,), state.refused, {"clients": len(state.clients)}, why=why)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        """Nobody is left to ask, and those that were too stale wait to be dropped."""
        return (State(state.clients), Step((), state.refused)) if state.refused else (state, None)

    def begin(self, params: Vector) -> Memory:
        return {"sum": np.zeros_like(params)}

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        (update,), (vector,) = step.used, vectors
        kept = dict(memory)
        news: Vector = vector - kept.get(f"client/{update.client}", 0)
        kept[f"client/{update.client}"] = vector.copy()
        if self.max_staleness < inf:
            kept[f"began/{update.client}"] = np.asarray(update.base_version)
            for name in [name for name, began in kept.items() if self.expired(name, began, update.version)]:
                del kept[name]
                news = news - kept.pop(name.replace("began", "client"))
        cached = [latest for name, latest in kept.items() if name.startswith("client/")]
        renewed = (update.version + 1) % RENEWED_EVERY == 0
        summed: Vector = total(cached, np.float64) if renewed else memory["sum"] + news
        number = step.notes["clients"] if self.max_staleness == inf else len(cached)
        return kept | {"sum": summed}, params - self.arrival_lr / number * summed

    def expired(self, name: str, began: Vector, version: int) -> bool:
        return name.startswith("began/") and version - int(began) > self.max_staleness

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters * (clients + 1) + (8 * clients if self.max_staleness < inf else 0)
