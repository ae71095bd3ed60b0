"""FedBuff: Nguyen et al., *Federated Learning with Buffered Asynchronous Aggregation*, arXiv 2106.06639.

    Algorithm 1, line 11     buffer until C updates have arrived            receive
    Section 3                s(τ) = 1/√(1+τ), not normalised by Σ s(τ)      weigh
    Algorithm 1, line 13     w ← w − η_g (1/C) Σ s(τ_i) Δ_i                  apply

Departures: none by default. `staleness = "freshest"` weighs the whole buffer by its freshest update, as AFBS does,
without dropping anything: the ablation that separates AFBS's step size from its selection. With a `deadline` a buffer
is emptied so many seconds after its first update came, however few there are; an update staler than `max_staleness`
(as in the authors' FLSim) is dropped.
`server` makes the mean the gradient of an optimiser: core.serverside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, final

from annotated_types import Ge, Gt

from afbs.core.averaging import Averaging
from afbs.core.buffer import Buffer
from afbs.core.staleness import Discount, discounted_mean
from afbs.seeds import Key
from afbs.types import ClientInfo, Step, Update


@final
@dataclass(frozen=True)
class FedBuff(Averaging[Buffer]):
    """Averages updates whenever a buffer is full; stale ones weigh less."""

    buffer_size: Annotated[int, Ge(1)] = 10
    """How many updates fill the buffer."""
    staleness: Discount = "each"
    """Weigh each update by its own staleness, all by the freshest one's, or not at all."""
    max_staleness: Annotated[float, Ge(0)] = inf
    """A staler update is dropped, and does not fill the buffer."""
    deadline: Annotated[float, Gt(0)] = inf
    """Seconds after its first update at which a buffer is emptied, however few it has."""

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> Buffer:
        return Buffer()

    def receive(self, state: Buffer, update: Update, key: Key) -> tuple[Buffer, Step | None]:
        if self.max_staleness < inf and update.staleness > self.max_staleness:
            return state.refuse(update), None
        buffer = state.add(update)
        return self.stalled(buffer) if buffer.size >= self.buffer_size else (buffer, None)

    def wake(self, state: Buffer) -> float | None:
        return state.since + self.deadline if self.deadline < inf and state.size else None

    def woken(self, state: Buffer, time: float, key: Key) -> tuple[Buffer, Step | None]:
        return self.stalled(state)

    def stalled(self, state: Buffer) -> tuple[Buffer, Step | None]:
        return Buffer(), state.step()

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return discounted_mean([update.staleness for update in used], self.staleness)
