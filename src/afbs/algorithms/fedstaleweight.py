"""FedStaleWeight: Ma, Tu, Chen, Reddi, *FedStaleWeight: Buffered Asynchronous Federated Learning with Fair Aggregation
via Staleness Reweighting*, arXiv 2406.02877.

    buffer                   until C updates have arrived (set B)                                receive
    average staleness        τ̄_i, the mean over all that client i has sent, this one included    settle
    fair weights             p_i ∝ C τ̄_i + 1, normalised over B                                  fair
    server                   w ← w − η_g Σ_{i∈B} p_i Δ_i                                         apply

Why these: while client i is at work τ_i buffers of C are emptied, so that one in about C τ_i + 1 arrivals is its own;
weighed by that number everybody counts alike, however slow. It is the opposite of FedBuff's discount.

Departures: none known, but the paper's own text was not at hand: this follows its abstract ("average staleness to
compute fair re-weightings") and a re-implementation (fedctl) that weighs by C τ + 1. How the average is taken was not
to be seen; here it is the plain mean. `weigh` sees no history, so the record's weights are by each update's own
staleness; the averages that the step was computed with are in its notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, final

from annotated_types import Ge

from afbs.core.averaging import Optimised
from afbs.core.buffer import Buffer
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector


class State(NamedTuple):
    sent: Mapping[ClientId, tuple[int, int]]
    """Of each client: how many updates it has sent, and the sum of their staleness."""
    buffer: Buffer = Buffer()


@final
@dataclass(frozen=True)
class FedStaleWeight(Optimised[State]):
    """A buffer in which slow clients weigh more, so that all count alike."""

    buffer_size: Annotated[int, Ge(1)] = 10
    """How many updates fill the buffer."""

    @property
    def awaits(self) -> int:
        return self.buffer_size

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State({})

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        state = state._replace(buffer=state.buffer.add(update))
        return self.settle(state) if state.buffer.size >= self.buffer_size else (state, None)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        return self.settle(state) if state.buffer.size else (state, None)

    def settle(self, state: State) -> tuple[State, Step]:
        updates = state.buffer.updates()
        sent = dict(state.sent)
        for update in updates:
            number, total = sent.get(update.client, (0, 0))
            sent[update.client] = number + 1, total + update.staleness
        averages = {str(update.client): sent[update.client][1] / sent[update.client][0] for update in updates}
        return State(sent), Step(updates, notes={"average_staleness": averages})

    def fair(self, staleness: Sequence[float]) -> tuple[float, ...]:
        arrivals = [self.buffer_size * age + 1 for age in staleness]
        return tuple(number / sum(arrivals) for number in arrivals)

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return self.fair([update.staleness for update in used])

    def begin(self, params: Vector) -> Memory:
        return self.side.begin(params)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        averages = step.notes["average_staleness"]
        weights = self.fair([averages[str(update.client)] for update in step.used])
        return self.side.mean_step(memory, params, weights, vectors)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return self.side.memory_bytes(parameters)
