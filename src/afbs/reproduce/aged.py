"""Buffers of which a known share is stale: for the figure in which the paper asks what staleness costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, final

from annotated_types import Ge

from afbs.core.vectors import descend
from afbs.interfaces import Algorithm, Pool
from afbs.seeds import Key
from afbs.types import Ask, ClientId, ClientInfo, Matrix, Memory, Step, Update, Vector


class Ageing(NamedTuple):
    """An update that waits until it is old enough."""

    due: int
    update: Update


class Ripening(NamedTuple):
    middling: ClientId
    at_once: frozenset[ClientId] = frozenset()
    asked: int = 0
    came: tuple[Update, ...] = ()
    shelf: tuple[Ageing, ...] = ()


@final
@dataclass(frozen=True)
class Aged(Algorithm[Ripening]):
    """Each step averages so many `fresh` updates and so many `stale` ones, which began 10 to 25 versions before.

    Where too many are old enough at once, some wait longer. With `alone`, one client trains by itself, that of whom as
    many have less data as have more: whatever it learns is the model.
    """

    fresh: Annotated[int, Ge(1)] = 9
    stale: Annotated[int, Ge(0)] = 1
    youngest: Annotated[int, Ge(1)] = 10
    oldest: Annotated[int, Ge(1)] = 25
    alone: bool = False

    def init(self, clients: Sequence[ClientInfo]) -> Ripening:
        return Ripening(sorted(clients, key=lambda client: (client.examples, client.id))[len(clients) // 2].id)

    def dispatch(self, state: Ripening, pool: Pool, key: Key) -> tuple[Ripening, Sequence[ClientId | Ask]]:
        if pool.busy:
            return state, ()
        asked = [state.middling] if self.alone else pool.sample(self.fresh + self.stale, key)
        return state._replace(at_once=frozenset(asked[: self.fresh]), asked=len(asked), came=()), asked

    def receive(self, state: Ripening, update: Update, key: Key) -> tuple[Ripening, Step | None]:
        came = (*state.came, update)
        if len(came) < state.asked:
            return state._replace(came=came), None
        ages = self.oldest - self.youngest + 1
        shelved = tuple(
            Ageing(one.version + self.youngest + int(key.uniform(place) * ages), one)
            for place, one in enumerate(came)
            if one.client not in state.at_once
        )
        shelf = sorted((*state.shelf, *shelved), key=lambda one: (one.due, one.update.sequence))
        due = [one for one in shelf if one.due <= update.version][: self.stale]
        used = (*(one for one in came if one.client in state.at_once), *(one.update for one in due))
        left = tuple(one for one in shelf if one not in due)
        return Ripening(state.middling, shelf=left), Step(used)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, descend(params, 1.0, step.weights, vectors)
