"""FedCompass: Li et al., *FedCompass: Efficient Cross-Silo Federated Learning on Heterogeneous Client Devices Using a
Computing Power-Aware Scheduler*, ICLR 2024, arXiv 2309.14675.

    Compass scheduler        a client gets Q steps, Q_min ≤ Q ≤ Q_max, to arrive with a group    core.compass.assign
    first answer             is a step by itself; its duration is the client's pace              core.compass.answered
    a group                  steps when complete, or λ times its due time after it was opened    receive, woken
    the late                 count in the next group's step                                      core.compass.step
    server                   w ← w − α (1/M) Σ s(τ_i) Δ_i over a group and the late              weigh, apply

M are all clients known. s is FedAsync's choice of discounts; α is `server_lr`.

Departures: it was written from the authors' code (APPFL: compass_scheduler.py and server_fed_compass.py, which counts
staleness at the arrival; the newer fedcompass_aggregator.py counts it at the step). A client that missed its group
waits for the next step; there it goes on at once with the model it has. Groups whose time is up at the same moment step
together. A lost client is no longer waited for. In the paper everybody is always at work, here as many as
`run.in_flight` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, NamedTuple, final

from annotated_types import Ge, Gt, Le

from afbs.core.compass import Groups, Pace
from afbs.core.serverside import Rate
from afbs.core.staleness import Rule, worth
from afbs.core.vectors import descend
from afbs.interfaces import Algorithm, Pool
from afbs.seeds import Key
from afbs.types import Ask, ClientId, ClientInfo, Matrix, Memory, Order, Step, Update, UserError, Vector


class State(NamedTuple):
    clients: frozenset[ClientId]
    groups: Groups = Groups()


@final
@dataclass(frozen=True)
class FedCompass(Algorithm[State]):
    """Gives the slow fewer steps, so that groups arrive together."""

    min_steps: Annotated[int, Ge(1)] = 20
    """The fewest steps that a client is given."""
    max_steps: Annotated[int, Ge(1)] = 100
    """The most, and what a new client is given."""
    slack: Annotated[float, Ge(1)] = 1.2
    """A group is waited for so many times as long as it should take."""
    pace_momentum: Annotated[float, Gt(0), Le(1)] = 0.9
    """How much of a client's pace is its latest answer."""
    server_lr: Rate = 1.0
    """On the sum of a step over the number of all clients."""
    discount: Rule = "polynomial"
    """How an update's weight falls with its staleness τ: (τ+1)^−`exponent`, not at all, or by a hinge."""
    exponent: Annotated[float, Ge(0)] = 0.5
    """Of the polynomial."""
    slope: Annotated[float, Gt(0)] = 10.0
    """Of the hinge: 1 up to `grace`, then 1/(`slope`·(τ−`grace`)+1)."""
    grace: Annotated[int, Ge(0)] = 6
    """Up to which staleness the hinge takes nothing off."""

    def __post_init__(self) -> None:
        if self.min_steps > self.max_steps:
            limit = f"above `algorithm.max_steps` ({self.max_steps})"
            raise UserError(f"`algorithm.min_steps` must not be {limit}, got {self.min_steps}.")

    @property
    def pace(self) -> Pace:
        return Pace(self.min_steps, self.max_steps, self.slack, self.pace_momentum)

    def init(self, clients: Sequence[ClientInfo]) -> State:
        return State(frozenset(client.id for client in clients))

    def joined(self, state: State, client: ClientInfo) -> State:
        return state._replace(clients=state.clients | {client.id})

    def dispatch(self, state: State, pool: Pool, key: Key) -> tuple[State, list[Ask]]:
        groups, asks = state.groups, []
        for client in sorted(pool.sample(pool.room, key), key=lambda one: groups.seconds.get(one, inf)):
            groups, steps = groups.assign(client, pool.time, self.pace)
            asks.append(Ask(client, steps=steps))
        return state._replace(groups=groups), asks

    def receive(self, state: State, update: Update, key: Key) -> tuple[State, Step | None]:
        return self.noted(state, *state.groups.answered(update, self.pace))

    def lost(self, state: State, order: Order) -> tuple[State, Step | None]:
        return self.noted(state, *state.groups.lost(order))

    def wake(self, state: State) -> float | None:
        return state.groups.wake()

    def woken(self, state: State, time: float, key: Key) -> tuple[State, Step | None]:
        return self.noted(state, *state.groups.step(state.groups.due(time)))

    def stalled(self, state: State) -> tuple[State, Step | None]:
        """Nobody else can come: all that have arrived count."""
        groups, step = state.groups.step(state.groups.due(inf))
        return self.noted(state, groups, step if step.used else None)

    def noted(self, state: State, groups: Groups, step: Step | None) -> tuple[State, Step | None]:
        noted = None if step is None else step._replace(notes={"clients": len(state.clients)})
        return State(state.clients, groups), noted

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return tuple(worth(update.staleness, self.discount, self.exponent, self.slope, self.grace) for update in used)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, descend(params, self.server_lr / step.notes["clients"], step.weights, vectors)
