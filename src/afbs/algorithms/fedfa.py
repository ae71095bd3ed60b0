"""FedFa: Xu et al., *FedFa: A Fully Asynchronous Training Paradigm for Federated Learning*, IJCAI 2024,
arXiv 2404.11015. Not the FedFa of *Fairness and Accuracy in Federated Learning*, which is synchronous.

    FedFa-Param              a queue of the last C models; once it is full, at every arrival the oldest
                             leaves and w ← (1/C) Σ_q θ_q                       receive, apply
    FedFa-Delta              the queue holds updates and w ← w − (1/C) Σ_q Δ_q   `mode = "delta"`

Until the queue is full nothing changes and clients go on training from the first model; nobody ever waits for the
queue. Staleness does not count. With C = 1 this is FedAsync with mixing 1 and no discount.

Departures: none known, but the paper was read through descriptions and re-implementations. If clients can no longer
be reached before the queue is full, the mean is over what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, final

from annotated_types import Ge

from afbs.core.buffer import Buffer
from afbs.core.vectors import total
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientInfo, Matrix, Memory, Step, Update, Vector


class State(NamedTuple):
    waiting: Buffer = Buffer()
    filled: bool = False


@final
@dataclass(frozen=True)
class FedFa(Algorithm[State]):
    """Averages a queue of the latest models at every arrival."""

    holds: ClassVar[bool] = False

    queue_size: Annotated[int, Ge(1)] = 10
    """How many of the latest models are averaged."""
    mode: Literal["model", "delta"] = "model"
    """Average models, or subtract the mean of updates, each of which then counts so many times, so much less."""

    @property
    def ships(self) -> Literal["delta", "end"]:
        return "end" if self.mode == "model" else "delta"

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State()

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        if state.filled:
            return state, Step((update,))
        waiting = state.waiting.add(update)
        return self.stalled(State(waiting)) if waiting.size >= self.queue_size else (State(waiting), None)

    def stalled(self, state: State) -> tuple[State, Step | None]:
        return (State(filled=True), Step(state.waiting.updates())) if state.waiting.size else (state, None)

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return (1.0 / self.queue_size,) * len(used)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        before = [memory[f"queue/{place}"] for place in range(len(memory))]
        queue = (before + [vector.copy() for vector in vectors])[-self.queue_size :]
        kept = {f"queue/{place}": vector for place, vector in enumerate(queue)}
        if self.mode == "delta":
            return kept, params - (1.0 / self.queue_size) * total(queue)
        return kept, (1.0 / len(queue)) * total(queue)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters * self.queue_size
