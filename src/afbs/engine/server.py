"""The model, what the algorithm remembers with it, and the one way in which both change: a step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from afbs.engine.answers import checked_facts, checked_memory, checked_model, checked_weights, lent
from afbs.engine.counts import Counts
from afbs.engine.versions import Versions
from afbs.interfaces import Algorithm, Session
from afbs.record.checkpoint import Checkpoint
from afbs.types import Decided, Facts, Matrix, Memory, Step, Update, UserError, Vector


class Applied(NamedTuple):
    """A step as it was taken: without the updates whose vectors could not be used.

    `told` is what clients said of their training, one for each that was used, if any said anything.
    """

    decided: Decided
    rejected: Sequence[Update] = ()
    missing: Sequence[Update] = ()
    told: Sequence[Mapping[str, float]] = ()


@final
class Server:
    """One version after another. What it lends to the algorithm cannot be written to."""

    def __init__(self, algorithm: Algorithm[Any], session: Session):
        self._algorithm = algorithm
        self._session = session
        self.params: Vector = lent(session.initial())
        self.memory: Memory = checked_memory(algorithm, "begin", algorithm.begin(self.params))
        self.version = 0
        self.time = 0.0
        self.counts = Counts()
        self.versions = Versions(session.store)

    def begin(self) -> None:
        self.versions.add(0, self.params)

    def apply(
        self,
        decided: Decided,
        rows: Matrix | None,
        rejected: Collection[int] = (),
        missing: Collection[int] = (),
        told: Mapping[int, Mapping[str, float]] | None = None,
    ) -> Applied:
        """The next version. `rows` are the vectors of `decided.step.used`; those rejected or missing are left out, and
        the others are weighed as if they had never been used. `told` is what was said of each, by its row."""
        step, unfit = decided.step, {*rejected, *missing}
        if unfit:
            assert rows is not None
            kept = [row for row in range(len(step.used)) if row not in unfit]
            step, rows = self.without(step, unfit), rows[kept]
        if step.used:
            answer = self._algorithm.apply(self.memory, self.params, step, lent(rows))
            memory, params = checked_model(self._algorithm, answer, len(self.params))
            self.memory, self.params = checked_memory(self._algorithm, "apply", memory), lent(params)
        self.version, self.time = decided.version, decided.time
        self.versions.add(self.version, self.params)
        used = decided.step.used
        applied = Applied(
            decided._replace(step=step),
            [used[row] for row in sorted(rejected)],
            [used[row] for row in sorted(missing)],
            [told.get(row, {}) for row in range(len(used)) if row not in unfit] if told else (),
        )
        self.counts.used += len(step.used)
        self.counts.dropped += len(step.dropped)
        self.counts.rejected += len(applied.rejected)
        self.counts.missing += len(applied.missing)
        return applied

    def look(self, updates: Sequence[Update], vectors: Matrix) -> Facts:
        """What the algorithm sees in the content of updates. `vectors` are what their clients shipped."""
        if self._algorithm.ships == "end":
            vectors = np.stack([self.versions.read(update.base_version) for update in updates]) - vectors
        return checked_facts(
            self._algorithm, self._algorithm.look(self.memory, self.params, tuple(updates), lent(vectors))
        )

    def checkpoint(self) -> Checkpoint:
        counts: Mapping[str, Any] = vars(self.counts).copy()
        remembered = self._session.remembered()
        return Checkpoint(self.version, self.params, self.memory, remembered, self.versions.older(), counts)

    def restore(self, checkpoint: Checkpoint, time: float) -> None:
        if len(checkpoint.params) != len(self.params):
            sizes = f"{len(checkpoint.params)} parameters, and the model has {len(self.params)}"
            raise UserError(f"The checkpoint has {sizes}: the configuration was changed after the run began.")
        self.version, self.time, self.params = checkpoint.version, time, lent(checkpoint.params)
        self.memory = {name: lent(array) for name, array in checkpoint.memory.items()}
        self.counts = Counts(**checkpoint.counts)
        self._session.restore(checkpoint.states)
        self.versions.restore(checkpoint.versions, checkpoint.version, checkpoint.params)

    def without(self, step: Step, unfit: Collection[int]) -> Step:
        """The step as if these of its updates had never been used."""
        used = tuple(update for row, update in enumerate(step.used) if row not in unfit)
        weights = checked_weights(self._algorithm, self._algorithm.weigh(used), len(used)) if used else ()
        why = tuple(reason for row, reason in enumerate(step.why) if row not in unfit)
        return step._replace(used=used, weights=weights, why=why)
