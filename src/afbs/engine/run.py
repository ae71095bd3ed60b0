"""The computing half of a simulated run: trains what the plan says will count, and applies the steps in its order.

    1. Read the plan ahead, as far as memory allows. Each used update becomes a job; a dropped one never does.
    2. A job is ready once the version it starts from exists. The job needed soonest goes first, large clients first.
    3. When all jobs of the next step are done, apply it: a new version exists, and more jobs are ready.
    4. Evaluations are tasks like jobs and wait for nobody. What they find is recorded in its place, in virtual time.

Because every job depends only on its base version, its client and its key, the result is the same bit for bit
whatever the number of workers, and whether or not the run was interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from afbs.engine.agenda import Agenda, Delivery
from afbs.engine.cadence import Cadence
from afbs.engine.counts import Counts
from afbs.engine.evaluations import Exam, Subject, due
from afbs.engine.outbox import Listener, Moment, Outbox
from afbs.engine.server import Server
from afbs.engine.stopping import stop_if_asked
from afbs.engine.witness import Witness
from afbs.interfaces import Algorithm, Session
from afbs.record.checkpoint import Checkpoint
from afbs.types import (
    Arrived,
    Decided,
    Dispatched,
    Evaluated,
    Event,
    Facts,
    Left,
    Lost,
    Order,
    Stopped,
    Update,
    UserError,
    Vector,
    Waiting,
)

_LOOK_AHEAD_BYTES = 256 * 2**20
_LOOK_AHEAD_JOBS = 512
_LOOK_AHEAD_EVENTS = 1 << 16
_CHUNK = 1 << 12
"""Events that are read at once where there is no step: a run in which nobody ever arrives must be stoppable."""
_WATCHED_FROM = 3600
"""Whether workers are idle is watched from the second virtual hour on: before it, everybody is just starting."""


class _Pending(NamedTuple):
    """A decided step whose vectors are still to come, and what happened before it. In a long time without a step, what
    happened alone."""

    decided: Decided | None
    events: list[Event]
    delivery: Delivery


@final
class Run:
    """One run. `go` returns when the plan has ended; `save` may be called at any time in between."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        session: Session,
        listener: Listener,
        subjects: Sequence[Subject],
        *,
        checkpoint_seconds: float = 60.0,
        stateful: bool | None = None,
    ):
        self._algorithm = algorithm
        self._session = session
        self.listener = listener
        self._subjects = subjects
        self._stateful = algorithm.local.stateful if stateful is None else stateful

        self.server = Server(algorithm, session)
        self.stopping = False
        """Set it from a signal handler, and `go` raises `SafelyStopped` at the next moment that can be saved."""
        self._pending: deque[_Pending] = deque()
        self._ahead = 0
        self._unheard = 0
        self._agenda = Agenda(session, self.server.versions)
        self._outbox = Outbox(listener)
        self._exams: dict[str, Exam] = {}
        self._contents: dict[int, Vector] = {}
        self._said: dict[int, Mapping[str, float]] = {}
        self._told: deque[Facts] = deque()
        self._cadence = Cadence(checkpoint_seconds, self.server.params.nbytes)
        self._watching_since: float | None = None
        size = max(1, len(self.server.params))
        self._look_ahead = max(2 * session.depth, min(_LOOK_AHEAD_JOBS, _LOOK_AHEAD_BYTES // (4 * size)))
        self._stopped: Stopped | None = None
        self._tail: list[Event] = []

    @property
    def counts(self) -> Counts:
        return self.server.counts

    # what a caller asks for

    def go(
        self, events: Iterator[Event | Waiting], checkpoint: Checkpoint | None = None, witness: Witness | None = None
    ) -> Stopped:
        """Everything in `events`. With a checkpoint, the events up to it are only read, not done, and a witness sees
        to it that they are what they were."""
        self._events = events
        if checkpoint is None:
            self.server.begin()
        else:
            self._take_up(checkpoint, witness)
        while True:
            # Here and only here is everything in order: between two turns a run can be stopped and saved.
            stop_if_asked(self)
            self._read_ahead()
            self._agenda.hand_out()
            if self._apply_next():
                continue
            if self._agenda.under_way:
                self._collect()
            elif not self._pending:
                break
        stopped = self._stopped
        assert stopped is not None
        self._announce(self._tail)
        self._evaluate_until(stopped.time, including=True)
        self.server.time = stopped.time
        self._outbox.put(stopped)
        self.settle()
        return stopped

    def settle(self) -> None:
        """Finish what has been handed out and record everything that can be recorded."""
        while self._agenda.under_way or self._agenda.examining:
            self._agenda.hand_out(exams_only=True)
            self._collect()
        self._post()

    def save(self) -> None:
        """A checkpoint of the version that exists now, in its place in the record."""
        checkpoint = self.server.checkpoint()
        self._outbox.put(checkpoint)
        self._cadence.saved(checkpoint.nbytes)
        self._post()

    def look(self, updates: Sequence[Update]) -> Facts:
        """For algorithms that look before they decide: what they see in these updates. The plan waits for it.

        Before a checkpoint it is what the record says that they saw."""
        if self._told:
            return self._told.popleft()
        while self._pending:
            self._agenda.hand_out()
            if not self._apply_next():
                self._collect()
        vectors = [self._content(update.order) for update in updates]
        return self.server.look(updates, np.stack(vectors))

    # 1. read the plan

    def _read_ahead(self) -> None:
        began = perf_counter()
        while self._stopped is None and (
            not self._pending or (self._ahead < self._look_ahead and self._unheard < _LOOK_AHEAD_EVENTS)
        ):
            pending = self._next_step()
            if pending is None:
                break
            self._pending.append(pending)
            self._unheard += len(pending.events)
            if pending.decided is not None:
                self._prepare(pending.delivery, pending.decided)
                self._ahead += len(pending.delivery.orders)
        self.counts.plan += perf_counter() - began

    def _next_step(self) -> _Pending | None:
        """The plan up to its next step, or a part of it. What comes after the last step is kept for the record."""
        seen: list[Event] = []
        for event in self._events:
            if isinstance(event, Decided):
                return _Pending(event, seen, Delivery())
            if isinstance(event, Dispatched):
                self.server.versions.use(event.order.version)
            if isinstance(event, Stopped):
                self._stopped = event
                self._tail = seen
                return None
            seen.append(event)  # type: ignore[arg-type]  # virtual time never waits
            if len(seen) >= _CHUNK:
                return _Pending(None, seen, Delivery())
        raise RuntimeError("The plan ended without saying why.")

    def _prepare(self, delivery: Delivery, decided: Decided) -> None:
        """Jobs for what is used. Where clients remember, a dropped update was still a client's training: it is done."""
        step = decided.step
        wanted = (*step.used, *step.dropped) if self._stateful else step.used
        delivery.orders = [update.order for update in wanted]
        if wanted:
            delivery.first, delivery.rows = self._session.store.block(len(wanted))
        for row, update in enumerate(wanted):
            known = self._contents.pop(update.order.sequence, None)
            if known is None:
                self._agenda.deliver(delivery, row, decided.version, update.examples)
            else:
                assert delivery.rows is not None
                delivery.rows[row] = known
                if update.order.sequence in self._said:
                    delivery.told[row] = self._said.pop(update.order.sequence)
                if not np.isfinite(known).all():
                    delivery.rejected.add(row)
        for update in step.dropped:
            self._contents.pop(update.order.sequence, None)
            self._said.pop(update.order.sequence, None)

    def _content(self, order: Order) -> Vector:
        """What the client of one order ships, now."""
        if order.sequence not in self._contents:
            first, rows = self._session.store.block(1)
            lone = Delivery([order], first, rows)
            self._agenda.deliver(lone, 0, self.server.version + 1, examples=0)
            while lone.missing:
                self._agenda.hand_out()
                self._collect()
            self.counts.add_jobs(lone.results)
            self._contents[order.sequence] = rows[0].copy()
            if lone.told:
                self._said[order.sequence] = lone.told[0]
            self._session.store.release(first)
        return self._contents[order.sequence]

    # 2. keep the workers busy

    def _collect(self) -> None:
        began = perf_counter()
        results = self._agenda.collect()
        self.counts.wait += perf_counter() - began
        for result in results:
            if self._watching_since is not None:
                self.counts.idle += result.waited
            if isinstance(result, Evaluated):
                self.counts.evaluate += result.seconds
        now = perf_counter()
        if self._watching_since is not None:
            self.counts.watched += (now - self._watching_since) * self._session.workers
        if self.server.time > _WATCHED_FROM:
            self._watching_since = now
        if any(isinstance(result, Evaluated) for result in results):
            self._post()

    # 3. apply steps in order

    def _apply_next(self) -> bool:
        if not self._pending or self._pending[0].delivery.missing:
            return False
        decided, events, delivery = self._pending.popleft()
        self._announce(events)
        self._unheard -= len(events)
        if decided is None:
            self._post()
            return True
        began = perf_counter()
        number = len(decided.step.used)
        self._evaluate_until(decided.time)
        rejected = {row for row in delivery.rejected if row < number}
        rows = None if delivery.rows is None else delivery.rows[:number]
        applied = self.server.apply(decided, rows, rejected, told=delivery.told)
        self.counts.add_jobs(delivery.results)  # now, so that what a checkpoint counts fits its version
        if self._stateful:
            for row, order in enumerate(delivery.orders):
                self._session.settle(order, row not in delivery.rejected)
        if delivery.rows is not None:
            self._session.store.release(delivery.first)
        self._agenda.exists(self.server.version)
        self._ahead -= len(delivery.orders)
        self._outbox.put(applied)
        for update in (*decided.step.used, *decided.step.dropped):
            self.server.versions.let_go(update.base_version)
        self.counts.apply += perf_counter() - began
        for subject in self._subjects:
            if subject.timetable.after(self.server.version):
                self._evaluate(self.server.time, subject)
        if self._cadence.due():
            self.save()
        self._post()
        return True

    def _announce(self, events: Sequence[Event]) -> None:
        for event in events:
            self._evaluate_until(event.time)
            self._outbox.put(event)
            if isinstance(event, Arrived):
                self.counts.arrived += 1
            elif isinstance(event, Lost):
                self.counts.lost += 1
                self.server.versions.let_go(event.order.version)
            elif isinstance(event, Left):
                self.counts.left += 1

    # 4. evaluate and record

    def _evaluate_until(self, time: float, including: bool = False) -> None:
        """The moments before `time` see the version that exists now."""
        for moment, subject in due(self._subjects, time, including):
            self._evaluate(moment, subject)

    def _evaluate(self, time: float, subject: Subject) -> None:
        version = self.server.version
        exam = self._exams.get(subject.event)
        if exam is None or exam.version != version:
            exam = self._exams[subject.event] = Exam(version, subject)
            self.counts.evaluations += not subject.local
            self._agenda.examine(exam)
        self._outbox.put(Moment(time, exam))

    def _post(self) -> None:
        began = perf_counter()
        self._outbox.post()
        self.counts.record += perf_counter() - began

    # taking up a run again

    def _take_up(self, checkpoint: Checkpoint, witness: Witness | None) -> None:
        """Read the plan up to the checkpoint, without doing it, and continue from there."""
        see = witness.see if witness else _look_away
        self._told = witness.facts() if witness else deque()
        time = 0.0
        while checkpoint.version > 0:
            pending = self._next_step()
            if pending is None:
                raise UserError("The run ends before its checkpoint: its configuration was changed after it began.")
            for event in pending.events:
                see(event)
                if isinstance(event, Lost):
                    self.server.versions.let_go(event.order.version)
            if pending.decided is None:
                continue
            see(pending.decided)
            for update in (*pending.decided.step.used, *pending.decided.step.dropped):
                self.server.versions.let_go(update.base_version)
            if pending.decided.version == checkpoint.version:
                time = pending.decided.time
                break
        due(self._subjects, time)
        self.server.restore(checkpoint, time)


def _look_away(event: Event) -> None:
    """Nobody has a record to hold it against."""
