"""A synchronous round as events: ask a cohort, wait until everyone has answered or is lost."""

from __future__ import annotations

from typing import NamedTuple

from afbs.core.buffer import Buffer
from afbs.interfaces import Pool
from afbs.seeds import Key
from afbs.types import ClientId, Step, Update


class Cohort(NamedTuple):
    """How many are still awaited, and who has answered."""

    awaited: int = 0
    answers: Buffer = Buffer()

    def ask(self, pool: Pool, key: Key) -> tuple[Cohort, list[ClientId]]:
        """A new cohort, once the last one is done."""
        if self.awaited:
            return self, []
        chosen = pool.sample(pool.room, key)
        return Cohort(len(chosen)), chosen

    def answered(self, update: Update) -> tuple[Cohort, Step | None]:
        return Cohort(self.awaited - 1, self.answers.add(update)).closed()

    def lost(self) -> tuple[Cohort, Step | None]:
        return Cohort(self.awaited - 1, self.answers).closed()

    def closed(self) -> tuple[Cohort, Step | None]:
        """The step, if nobody is awaited any more; if nobody answered, a new cohort is asked instead."""
        if self.awaited:
            return self, None
        return Cohort(), Step(self.answers.updates()) if self.answers.size else None
