"""CA2FL: Wang et al., *Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
Calibration*, ICLR 2024 (no arXiv number; OpenReview WpjdIMouJj is its workshop version).

    Algorithm 2, buffer      until C updates have arrived (set B)                        receive
    Algorithm 2, calibrate   v = h + (1/|B|) Σ_{i∈B} (Δ_i − h_i), w ← w − η_g v          apply
    Algorithm 2, cache       h_i ← Δ_i, then h = (1/M) Σ_i h_i                           apply

h in v is the one before this buffer. M are all clients known; a client never heard of has h_i = 0.

The server keeps Σ h_i, adds each step's differences to it, and sums it anew every 1,000 versions, so that rounding
cannot add up. Memory: one model for every client heard of.

`server` makes v the gradient of an optimiser: core.serverside.

Departures: none by default. The paper also has a quantised cache, which is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, final

import numpy as np
from annotated_types import Ge

from afbs.core.averaging import Optimised
from afbs.core.buffer import Buffer
from afbs.core.vectors import total
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector

RENEWED_EVERY = 1000


class State(NamedTuple):
    clients: frozenset[ClientId]
    buffer: Buffer = Buffer()


@final
@dataclass(frozen=True)
class CA2FL(Optimised[State]):
    """Remembers every client's last update; the silent speak through it."""

    buffer_size: Annotated[int, Ge(1)] = 10
    """How many updates fill the buffer."""

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State(frozenset(client.id for client in clients))

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(clients=state.clients | {client.id})

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        state = State(state.clients, state.buffer.add(update))
        return self.stalled(state) if state.buffer.size >= self.buffer_size else (state, None)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        if not state.buffer.size:
            return state, None
        return State(state.clients), Step(state.buffer.updates(), notes={"clients": len(state.clients)})

    def begin(self, params: Vector) -> Memory:
        return {"sum": np.zeros_like(params)} | self.side.begin(params)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        kept = dict(memory)
        news = np.zeros_like(params)
        for update, vector in zip(step.used, vectors, strict=True):
            name = f"client/{update.client}"
            news += vector - kept[name] if name in kept else vector
            kept[name] = vector.copy()
        kept["sum"] = memory["sum"] + news
        if (step.used[-1].version + 1) % RENEWED_EVERY == 0:
            kept["sum"] = total([cached for name, cached in kept.items() if name.startswith("client/")], np.float64)
        calibrated = memory["sum"] / step.notes["clients"] + news / len(step.used)
        remembered, model = self.side.step(memory, params, calibrated)
        return kept | remembered, model

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters * (clients + 1) + self.side.memory_bytes(parameters)
