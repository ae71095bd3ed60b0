"""AFBS: Lu et al., *AFBS: Buffer Gradient Selection in Semi-asynchronous Federated Learning*, arXiv 2506.12754.

    Algorithm 1              buffer C updates, select, w ← w − η_g λ (1/|S|) Σ_{i∈S} Δ_i    receive, apply
    Algorithm 2, Eq. score   score = V / (τ+1)², inferior in both ⇒ dropped, second chance   core.selection.select
    Table 1                  λ = 1/√(1 + τ_min), one number a step                          weigh

S are the survivors. Clusters come with `ClientInfo`; without `clustering` all clients are one cluster.

Departures: none by default. Ablations: `survival` (buffer, cluster, none), `clustering = false`, `drop = "random"`
(as many as AFBS would drop, but any), `weights = "each"` (AFBS's selection with FedBuff's weights).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, final

from annotated_types import Ge, Gt

from afbs.core.buffer import Buffer
from afbs.core.selection import Survival, select, shuffled
from afbs.core.staleness import Discount, discounted_mean
from afbs.core.vectors import descend
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector


class State(NamedTuple):
    cluster_of: Mapping[ClientId, int]
    buffer: Buffer = Buffer()


@final
@dataclass(frozen=True)
class AFBS(Algorithm[State]):
    """Drops updates staler and smaller than the best of their cluster."""

    buffer_size: Annotated[int, Ge(1)] = 10
    server_lr: Annotated[float, Gt(0)] = 1.0
    survival: Survival = "buffer"
    clustering: bool = True
    weights: Discount = "freshest"
    drop: Literal["inferior", "random"] = "inferior"

    @property
    def clustered(self) -> bool:
        return self.clustering

    @property
    def quorum(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State({client.id: client.cluster for client in clients} if self.clustering else {})

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(cluster_of={**state.cluster_of, client.id: client.cluster}) if self.clustering else state

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        buffer = state.buffer.add(update)
        if buffer.size < self.buffer_size:
            return State(state.cluster_of, buffer), None
        return State(state.cluster_of), self.select(state.cluster_of, buffer.updates(), key)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        """What there is counts, all of it: there is nothing better to wait for."""
        return State(state.cluster_of), Step(state.buffer.updates()) if state.buffer.size else None

    def select(self, cluster_of: Mapping[ClientId, int], buffer: Sequence[Update], key: Key) -> Step:
        keep = select(
            [update.examples for update in buffer],
            [update.version - update.order.version for update in buffer],
            [cluster_of.get(update.client, 0) for update in buffer] if cluster_of else [0] * len(buffer),
            self.survival,
            key.uniform,
        )
        if self.drop == "random":
            keep = shuffled(keep, key.child(0))
        return Step(
            used=tuple([update for update, kept in zip(buffer, keep, strict=True) if kept]),
            dropped=tuple([update for update, kept in zip(buffer, keep, strict=True) if not kept]),
        )

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return discounted_mean([update.staleness for update in used], self.weights)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, descend(params, self.server_lr, step.weights, vectors)
