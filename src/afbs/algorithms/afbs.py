"""AFBS: Lu et al., *AFBS: Buffer Gradient Selection in Semi-asynchronous Federated Learning*, arXiv 2506.12754.

    Algorithm 1              buffer C updates, select, w ← w − η_g λ (1/|S|) Σ_{i∈S} Δ_i    receive, apply
    Algorithm 2, Eq. score   score = V / (τ+1)², inferior in both ⇒ dropped, second chance   core.selection.judged
    Table 1                  λ = 1/√(1 + τ_min), one number a step                          weigh

S are the survivors. Clusters come with `ClientInfo`; without `clustering` all clients are one cluster.

Departures: none by default. Ablations: `survival` (buffer, cluster, none), `clustering = false`, `drop = "random"`
(as many as AFBS would drop, but any), `weights = "each"` (AFBS's selection with FedBuff's weights). With a `deadline`
the buffer is emptied so many seconds after its first update came; what is staler than `max_staleness` is dropped.
`server` makes the mean the gradient of an optimiser: core.serverside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal, NamedTuple, final

from annotated_types import Ge, Gt

from afbs.core.averaging import Averaging
from afbs.core.buffer import Buffer
from afbs.core.selection import DROPPED, Survival, drawn_by_lot, judged
from afbs.core.staleness import Discount, discounted_mean
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Step, Update


class State(NamedTuple):
    cluster_of: Mapping[ClientId, int]
    buffer: Buffer = Buffer()


@final
@dataclass(frozen=True)
class AFBS(Averaging[State]):
    """Drops updates staler and smaller than the best of their cluster."""

    buffer_size: Annotated[int, Ge(1)] = 10
    """How many updates fill the buffer; at least twice the number of clusters, or hardly any is dropped."""
    survival: Survival = "buffer"
    """The second chance of an inferior update: its score over the buffer's highest, its cluster's, or none."""
    clustering: bool = True
    """Compare within clusters of alike clients; false: all are one, and nobody is asked about labels."""
    weights: Discount = "freshest"
    """Weigh a step by its freshest update, each update by its own staleness (as FedBuff), or not at all."""
    drop: Literal["inferior", "random"] = "inferior"
    """The inferior, or as many but any."""
    max_staleness: Annotated[float, Ge(0)] = inf
    """A staler update is dropped, and does not fill the buffer."""
    deadline: Annotated[float, Gt(0)] = inf
    """Seconds after its first update at which a buffer is emptied, however few it has."""

    @property
    def clustered(self) -> bool:
        return self.clustering

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State({client.id: client.cluster for client in clients} if self.clustering else {})

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(cluster_of={**state.cluster_of, client.id: client.cluster}) if self.clustering else state

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        if self.max_staleness < inf and update.staleness > self.max_staleness:
            return State(state.cluster_of, state.buffer.refuse(update)), None
        buffer = state.buffer.add(update)
        if buffer.size < self.buffer_size:
            return State(state.cluster_of, buffer), None
        return State(state.cluster_of), self.select(state.cluster_of, buffer, key)

    def wake(self, state: State) -> float | None:
        return state.buffer.since + self.deadline if self.deadline < inf and state.buffer.size else None

    def woken(self, state: State, time: float, key: Key) -> tuple[State, Step | None]:
        return State(state.cluster_of), self.select(state.cluster_of, state.buffer, key)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        """What there is counts, all of it: there is nothing better to wait for."""
        return State(state.cluster_of), state.buffer.step()

    def select(self, cluster_of: Mapping[ClientId, int], buffer: Buffer, key: Key) -> Step:
        updates = buffer.updates()
        why = judged(
            [update.examples for update in updates],
            [update.version - update.order.version for update in updates],
            [cluster_of.get(update.client, 0) for update in updates] if cluster_of else [0] * len(updates),
            self.survival,
            key.uniform,
        )
        if self.drop == "random":
            why = drawn_by_lot(why, key.child(0))
        return buffer.sifted(why, DROPPED)

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return discounted_mean([update.staleness for update in used], self.weights)
