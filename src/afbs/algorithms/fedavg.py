"""FedAvg: McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*,
arXiv 1602.05629.

    Algorithm 1, server      a cohort is asked and all of it awaited        dispatch, receive, lost, woken
    Algorithm 1, server      w ← Σ (n_i / Σ n_j) w_i, here w ← w − Σ (n_i / Σ n_j) Δ_i    weigh, apply

Departures: none by default; `average = "uniform"` gives every client the same weight. With a `quorum` a round is over
once so many have answered, and `over_selection` asks this share more than those (both as in Bonawitz et al., *Towards
Federated Learning at Scale*, arXiv 1902.01046); with a `deadline` it is over after so many seconds. Late answers are
dropped.
`server` makes the mean the gradient of an optimiser: core.serverside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Annotated, Literal, final

from annotated_types import Ge, Gt

from afbs.core.averaging import Averaging
from afbs.core.cohort import Cohort, Rounds
from afbs.interfaces import Pool
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Order, Step, Update


@final
@dataclass(frozen=True)
class FedAvg(Averaging[Cohort]):
    """Synchronous rounds: waits for a cohort, averages by data size."""

    average: Literal["weighted", "uniform"] = "weighted"
    """By data size, or all alike."""
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

    def init(self, clients: Sequence[ClientInfo]) -> Cohort:
        return Cohort()

    def dispatch(self, state: Cohort, pool: Pool, key: Key) -> tuple[Cohort, list[ClientId]]:
        return state.ask(pool, key, self.rounds)

    def receive(self, state: Cohort, update: Update, key: Key) -> tuple[Cohort, Step | None]:
        return state.answered(update, self.rounds)

    def lost(self, state: Cohort, order: Order) -> tuple[Cohort, Step | None]:
        return state.lost(order, self.rounds)

    def wake(self, state: Cohort) -> float | None:
        return state.wake(self.rounds)

    def woken(self, state: Cohort, time: float, key: Key) -> tuple[Cohort, Step | None]:
        return state.woken()

    def stalled(self, state: Cohort) -> tuple[Cohort, Step | None]:
        return state.stalled()

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        sizes = [update.examples if self.average == "weighted" else 1 for update in used]
        return tuple(size / sum(sizes) for size in sizes)
