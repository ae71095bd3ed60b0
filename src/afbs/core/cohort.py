"""A synchronous round as events: ask a cohort, wait until enough have answered, or everyone has or is lost."""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

from afbs.core.buffer import Buffer
from afbs.interfaces import Pool
from afbs.seeds import Key
from afbs.types import ClientId, Order, Step, Update


class Rounds(NamedTuple):
    """When a round is over: all have answered, or `quorum` of them (0: all), or after `deadline` seconds."""

    quorum: int = 0
    over_selection: float = 0.0
    deadline: float = inf

    def size(self, room: int) -> int:
        """How many are asked: as many as there is room for, or so many more than the quorum."""
        return min(room, ceil(self.quorum * (1 + self.over_selection))) if self.over_selection and self.quorum else room


class Cohort(NamedTuple):
    """One round: how many are still awaited, from which version on and since when, and who has answered.

    Who answers after the round was closed is late: `answers.refused`, which the next step drops.
    """

    awaited: int = 0
    version: int = -1
    since: float = 0.0
    answers: Buffer = Buffer()
    short: bool = False
    """The deadline passed and nobody had answered: more are asked."""

    def ask(self, pool: Pool, key: Key, rounds: Rounds) -> tuple[Cohort, list[ClientId]]:
        """A new cohort, once the last one is done."""
        if self.awaited and not self.short:
            return self, []
        chosen = pool.sample(rounds.size(pool.room), key)
        if self.short and not chosen:
            return self, []  # nobody to ask yet; who is awaited goes on being awaited
        return Cohort(self.awaited + len(chosen), pool.version, pool.time, self.answers), chosen

    def answered(self, update: Update, rounds: Rounds) -> tuple[Cohort, Step | None]:
        if update.staleness:
            return self._replace(answers=self.answers.refuse(update)), None
        return self._replace(awaited=self.awaited - 1, answers=self.answers.add(update)).closed(rounds)

    def lost(self, order: Order, rounds: Rounds) -> tuple[Cohort, Step | None]:
        if order.version != self.version:
            return self, None
        return self._replace(awaited=self.awaited - 1).closed(rounds)

    def wake(self, rounds: Rounds) -> float | None:
        return self.since + rounds.deadline if self.awaited and rounds.deadline < inf else None

    def woken(self) -> tuple[Cohort, Step | None]:
        """The deadline: whoever has answered counts; if nobody has, more are asked and all go on being awaited."""
        if not self.answers.size:
            return self._replace(short=True, since=inf), None
        return Cohort(), self.answers.step("late")

    def closed(self, rounds: Rounds) -> tuple[Cohort, Step | None]:
        """The step, if the round is over; if nobody answered, a new cohort is asked instead."""
        if self.awaited and not 0 < rounds.quorum <= self.answers.size:
            return self, None
        if not self.answers.size:
            return Cohort(answers=self.answers), None
        return Cohort(), self.answers.step("late")

    def stalled(self) -> tuple[Cohort, Step | None]:
        """Nobody is under way, and those who were late wait for a step."""
        return (Cohort(), self.answers.step("late")) if self.answers.refused else (self, None)
