"""The computing half of a run on real clients: nothing is read ahead, and everything is written down before it is done.

    1. Read one event. What happened is recorded; an order is recorded before it is sent.
    2. A step is taken at once: its vectors are fetched from whoever trained them, it is applied, and the new version is
       saved and published before anything that depends on it is read from the plan.
    3. While nothing happens, finished evaluations are collected, and the run can be stopped.

Killed at any moment, it goes on from its record: the record decides everything again, and what was already done, up to
the last checkpoint, is not done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from afbs.engine.counts import Counts
from afbs.engine.evaluations import Exam, Subject, due
from afbs.engine.outbox import Listener
from afbs.engine.server import Applied, Server
from afbs.engine.stopping import stop_if_asked
from afbs.engine.witness import Witness
from afbs.interfaces import Algorithm, Session
from afbs.record.checkpoint import Checkpoint
from afbs.types import (
    Arrived,
    Decided,
    Evaluate,
    Evaluated,
    Event,
    Facts,
    Fetch,
    Left,
    Lost,
    Matrix,
    Order,
    Shipped,
    Stopped,
    Update,
    UserError,
    Vector,
    Waiting,
)

_PATIENCE = 0.5
"""Seconds between two looks around while vectors are on their way."""


@final
class LiveRun:
    """One run on real clients. `publish` is told each version as soon as it exists and is safe."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        session: Session,
        listener: Listener,
        subjects: Sequence[Subject],
        publish: Callable[[int, Vector], None],
        stateful: bool | None = None,
    ):
        if algorithm.looks and algorithm.ships == "end":
            raise UserError(
                "`algorithm`: on real clients one that looks into updates must have them ship their change."
            )
        self._session = session
        self.listener = listener
        self._subjects = subjects
        self._publish = publish
        self._stateful = algorithm.local.stateful if stateful is None else stateful
        self.server = Server(algorithm, session)
        self.stopping = False
        """Set it from a signal handler, and `go` raises `SafelyStopped` at the next moment at which it can."""
        self._contents: dict[int, Vector | None] = {}
        self._said: dict[int, Mapping[str, float]] = {}
        self._told: list[Facts] = []
        self._witness = Witness(())
        self._exams: dict[int, tuple[Exam, int, float]] = {}
        self._tested: dict[str, int] = {}
        self._fetched: dict[int, Shipped] = {}
        self._numbers = 0
        self._unfit: dict[str, Sequence[int]] = {}
        self._counting = True

    @property
    def counts(self) -> Counts:
        return self.server.counts

    def go(
        self, events: Iterator[Event | Waiting], checkpoint: Checkpoint | None = None, witness: Witness | None = None
    ) -> Stopped:
        """Everything in `events`. With a witness, what it has seen before is only decided again."""
        self._witness = witness or self._witness
        self._told = list(reversed(self._witness.facts()))
        if checkpoint is None:
            self.server.begin()
            self.listener.checkpoint(self.server.checkpoint())
        else:
            self.server.restore(checkpoint, 0.0)
            self._unfit = dict(checkpoint.unfit)
            self._counting = checkpoint.version == 0
        self._publish(self.server.version, self.server.params)
        for event in events:
            self._look_around(event.until if isinstance(event, Waiting) else event.time)
            if isinstance(event, Stopped):
                return self._end(event)
            if isinstance(event, Decided):
                self._step(event)
            elif not isinstance(event, Waiting):
                self._happened(event)
        raise RuntimeError("The plan ended without saying why.")

    def look(self, updates: Sequence[Update]) -> Facts:
        """For algorithms that look before they decide. What the record says that they saw comes first."""
        if self._told:
            return self._told.pop()
        vectors = self._vectors([update.order for update in updates])
        size = len(self.server.params)
        rows = [np.full(size, np.nan, np.float32) if vector is None else vector for vector in vectors]
        return self.server.look(updates, np.stack(rows))

    def _happened(self, event: Event) -> None:
        if self._counting:  # what came before the checkpoint has been counted
            self.counts.arrived += isinstance(event, Arrived)
            self.counts.lost += isinstance(event, Lost)
            self.counts.left += isinstance(event, Left)
        if self._witness.done:
            self.listener.event(event)
        else:
            self._witness.see(event)

    def _step(self, decided: Decided) -> None:
        used, dropped = decided.step.used, decided.step.dropped
        if decided.version <= self.server.version:
            self._done_before(decided)
        else:
            vectors = self._vectors([update.order for update in used])
            missing = {row for row, vector in enumerate(vectors) if vector is None}
            rejected = {
                row for row, vector in enumerate(vectors) if vector is not None and not np.isfinite(vector).all()
            }
            rows = self._matrix(vectors)
            told = {row: self._said.get(update.order.sequence, {}) for row, update in enumerate(used)}
            applied = self.server.apply(decided, rows, rejected, missing, told if any(told.values()) else None)
            for row, update in enumerate(used):
                self._session.settle(update.order, row not in rejected | missing)
            for update in dropped:
                self._session.settle(update.order, self._stateful)
            self._unfit = {
                "rejected": [update.order.sequence for update in applied.rejected],
                "missing": [update.order.sequence for update in applied.missing],
            }
            self._save()
            self._record(applied)
            self._publish(self.server.version, self.server.params)
            for subject in self._subjects:
                if subject.timetable.after(self.server.version):
                    self._examine(self.server.time, subject)
        for update in (*used, *dropped):
            self._contents.pop(update.order.sequence, None)
            self._said.pop(update.order.sequence, None)

    def _done_before(self, decided: Decided) -> None:
        """It was applied and saved before the run was killed. Only its line may be missing."""
        self._counting = decided.version == self.server.version
        if not self._witness.done:
            self._witness.see(decided)
            return
        unfit = {row for row, update in enumerate(decided.step.used) if update.order.sequence in self._all_unfit()}
        step = self.server.without(decided.step, unfit)
        gone = [decided.step.used[row] for row in sorted(unfit)]
        rejected = [update for update in gone if update.order.sequence in self._unfit.get("rejected", ())]
        missing = [update for update in gone if update not in rejected]
        self.listener.applied(decided._replace(step=step), rejected, missing)

    def _record(self, applied: Applied) -> None:
        if self._witness.done:
            self.listener.applied(*applied)
        else:
            self._witness.see(applied.decided)

    def _save(self) -> None:
        """Before its line is written, so that a version that the record knows can always be had again."""
        saved = self.server.checkpoint()
        self.listener.checkpoint(Checkpoint(**{**vars(saved), "unfit": self._unfit}))

    def _all_unfit(self) -> set[int]:
        return {order for orders in self._unfit.values() for order in orders}

    # vectors

    def _vectors(self, orders: Sequence[Order]) -> list[Vector | None]:
        """What the clients of these orders ship; None for what does not come."""
        wanted = [order for order in orders if order.sequence not in self._contents]
        if wanted:
            first, rows = self._session.store.block(len(wanted))
            numbers = [self._fetch(order, first + row) for row, order in enumerate(wanted)]
            while any(number not in self._fetched for number in numbers):
                self._collect(_PATIENCE)
                stop_if_asked(self)
            results = [self._fetched.pop(number) for number in numbers]
            self.counts.add_jobs(result for result in results if result.outcome != "missing")
            for row, (order, result) in enumerate(zip(wanted, results, strict=True)):
                self._contents[order.sequence] = None if result.outcome == "missing" else rows[row].copy()
                self._said[order.sequence] = result.told
            self._session.store.release(first)
        return [self._contents[order.sequence] for order in orders]

    def _fetch(self, order: Order, slot: int) -> int:
        self._numbers += 1
        self._session.submit(Fetch(self._numbers, order, slot))
        return self._numbers

    def _matrix(self, vectors: Sequence[Vector | None]) -> Matrix | None:
        if not vectors:
            return None
        blank = np.zeros(len(self.server.params), np.float32)
        return np.stack([blank if vector is None else vector for vector in vectors])

    # while it waits

    def _look_around(self, now: float) -> None:
        self._collect(0.0)
        passed = due(self._subjects, now)
        for moment, subject in passed if self._witness.done else ():
            self._examine(moment, subject)
        self.server.time = max(self.server.time, now)
        stop_if_asked(self)

    def _collect(self, seconds: float) -> None:
        for result in self._session.collect(seconds):
            if isinstance(result, Evaluated):
                self._examined(result)
            else:
                self._fetched[result.task] = result

    def _examine(self, time: float, subject: Subject) -> None:
        version = self.server.version
        exam = Exam(version, subject)
        self._tested[subject.event] = version
        self.counts.evaluations += not subject.local
        self.server.versions.use(version)
        for part in range(subject.parts):
            self._numbers += 1
            self._exams[self._numbers] = exam, part, time
            self._session.submit(Evaluate(self._numbers, self.server.versions.slot(version), part, subject.local))

    def _examined(self, result: Evaluated) -> None:
        exam, part, time = self._exams.pop(result.task)
        exam.add(part, result)
        self.counts.evaluate += result.seconds
        if not exam.missing:
            self.server.versions.let_go(exam.version)
            self.listener.evaluated(time, exam.version, exam.score(), exam.subject.event)

    def _end(self, stopped: Stopped) -> Stopped:
        for moment, subject in due(self._subjects, stopped.time, including=True):
            self._examine(moment, subject)
        for subject in self._subjects:  # whatever ends a run, and whoever was killed, its last model is tested
            if self._tested.get(subject.event) != self.server.version:
                self._examine(stopped.time, subject)
        while self._exams:
            self._collect(_PATIENCE)
            stop_if_asked(self)
        self.server.time = stopped.time
        self.listener.event(stopped)
        return stopped
