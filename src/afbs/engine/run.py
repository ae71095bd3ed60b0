"""The computing half of a run: trains what the plan says will count, and applies the steps in the plan's order.

    1. Read the plan ahead, as far as memory allows. Each used update becomes a job; a dropped one never does.
    2. A job is ready once the version it starts from exists. The job needed soonest goes first, large clients first.
    3. When all jobs of the next step are done, apply it: a new version exists, and more jobs are ready.
    4. Evaluations are tasks like jobs and wait for nobody. What they find is recorded in its place, in virtual time.

Because every job depends only on its base version, its client and its key, the result is the same bit for bit
whatever the number of workers, and whether or not the run was interrupted.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from afbs.engine.counts import Counts
from afbs.engine.outbox import Applied, Evaluation, Listener, Moment, Outbox
from afbs.engine.versions import Versions
from afbs.interfaces import Algorithm, Executor
from afbs.record.checkpoint import Checkpoint
from afbs.types import (
    Arrived,
    ClientId,
    Decided,
    Dispatched,
    Evaluated,
    Event,
    Job,
    Lost,
    Matrix,
    Memory,
    Order,
    Step,
    Stopped,
    Trained,
    Training,
    Update,
    UserError,
    Vector,
)

_LOOK_AHEAD_BYTES = 256 * 2**20
_LOOK_AHEAD_JOBS = 512
_EVALUATION_SLACK = 8
"""An evaluation is as urgent as a job that is needed this many steps later."""


@dataclass
class _Pending:
    """A decided step whose vectors are still to come."""

    decided: Decided
    events: list[Event]
    first: int = -1
    rows: Matrix | None = None
    orders: list[Order] = field(default_factory=list)
    missing: int = 0
    rejected: set[int] = field(default_factory=set)
    results: list[Trained] = field(default_factory=list)


class _Task(NamedTuple):
    """What a task number stands for: a row of a pending step, or a part of an evaluation."""

    pending: _Pending | None
    row: int
    order: Order | None
    evaluation: Evaluation | None = None


@final
class Run:
    """One run. `go` returns when the plan has ended; `checkpoint` may be asked for at any time in between."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        executor: Executor,
        training: Training,
        listener: Listener,
        *,
        grid: Iterable[float],
        every: int = 0,
        evaluation_parts: int = 1,
        checkpoint_seconds: float = 60.0,
    ):
        self._algorithm = algorithm
        self._executor = executor
        self._training = training
        self._listener = listener
        self._grid = deque(grid)
        self._every = every
        self._parts = evaluation_parts
        self._checkpoint_seconds = checkpoint_seconds
        self._stateful = algorithm.local.stateful

        self.params: Vector = executor.initial()
        self.version = 0
        self.time = 0.0
        self.counts = Counts()
        self.stopping = False
        """Set it from a signal handler, and `go` raises `KeyboardInterrupt` at the next moment that can be saved."""
        self._memory: Memory = algorithm.begin(self.params)
        self._states: dict[ClientId, Vector] = {}
        self._state_slots: dict[ClientId, int] = {}
        self._versions = Versions(executor)
        self._pending: deque[_Pending] = deque()
        self._ahead = 0
        self._ready: list[tuple[int, int, int]] = []
        self._waiting: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self._tasks: dict[int, _Task] = {}
        self._under_way = 0
        self._numbers = 0
        self._outbox = Outbox(listener)
        self._evaluation: Evaluation | None = None
        self._contents: dict[int, Vector] = {}
        self._saved_at = perf_counter()
        self._watching_since: float | None = None
        self._look_ahead = max(
            2 * executor.depth, min(_LOOK_AHEAD_JOBS, _LOOK_AHEAD_BYTES // (4 * max(1, len(self.params))))
        )
        self._stopped: Stopped | None = None
        self._tail: list[Event] = []

    # what a caller asks for

    def go(self, events: Iterator[Event], checkpoint: Checkpoint | None = None) -> Stopped:
        """Everything in `events`. With a checkpoint, the events up to it are only read, not done."""
        self._events = events
        if checkpoint is None:
            self._versions.add(0, self.params)
        else:
            self._take_up(checkpoint)
        while True:
            # Here and only here is everything in order: between two turns a run can be stopped and saved.
            self._listener.progress(self.time, self.version, self.counts.trained)
            if self.stopping:
                raise KeyboardInterrupt
            self._read_ahead()
            self._hand_out()
            if self._apply_next():
                continue
            if self._under_way:
                self._collect()
            elif not self._pending:
                break
        stopped = self._stopped
        assert stopped is not None
        self._announce(self._tail)
        self._evaluate_until(stopped.time, including=True)
        self.time = stopped.time
        self._outbox.put(stopped)
        self.settle()
        return stopped

    def settle(self) -> None:
        """Finish what has been handed out and record everything that can be recorded."""
        while self._under_way or any(task.evaluation for task in self._tasks.values()):
            self._hand_out(evaluations_only=True)
            self._collect()
        self._post()

    def save(self) -> None:
        """A checkpoint of the version that exists now, in its place in the record."""
        older, counts = self._versions.older(), vars(self.counts).copy()
        self._outbox.put(Checkpoint(self.version, self.params, self._memory, dict(self._states), older, counts))
        self._saved_at = perf_counter()
        self._post()

    def content(self, order: Order) -> Vector:
        """One update (start minus end), now: for algorithms that look before they decide. The plan waits for it."""
        if order.sequence not in self._contents:
            while self.version < order.version:
                self._hand_out()
                if not self._apply_next():
                    self._collect()
            lone = _Pending(Decided(order.time, self.version + 1, Step(())), [], orders=[order], missing=1)
            lone.first, lone.rows = self._executor.block(1)
            self._enlist(lone, 0, order, examples=0)
            while lone.missing:
                self._hand_out()
                self._collect()
            self.counts.add_jobs(lone.results)
            assert lone.rows is not None
            self._contents[order.sequence] = lone.rows[0].copy()
            self._executor.release(lone.first)
        vector = self._contents[order.sequence]
        if self._algorithm.ships == "delta":
            return vector
        delta: Vector = self._versions.read(order.version) - vector
        return delta

    # 1. read the plan

    def _read_ahead(self) -> None:
        began = perf_counter()
        while self._stopped is None and (self._ahead < self._look_ahead or not self._pending):
            pending = self._next_step()
            if pending is None:
                break
            self._pending.append(pending)
            self._prepare(pending)
            self._ahead += len(pending.orders)
        self.counts.plan += perf_counter() - began

    def _next_step(self) -> _Pending | None:
        """The plan up to its next step. What comes after the last step is kept for the record."""
        seen: list[Event] = []
        for event in self._events:
            if isinstance(event, Decided):
                return _Pending(event, seen)
            if isinstance(event, Dispatched):
                self._versions.use(event.order.version)
            if isinstance(event, Stopped):
                self._stopped = event
                self._tail = seen
                return None
            seen.append(event)
        raise RuntimeError("The plan ended without saying why.")

    def _prepare(self, pending: _Pending) -> None:
        """Jobs for what is used. Where clients remember, a dropped update was still a client's training: it is done."""
        step = pending.decided.step
        wanted = (*step.used, *step.dropped) if self._stateful else step.used
        pending.orders = [update.order for update in wanted]
        if wanted:
            pending.first, pending.rows = self._executor.block(len(wanted) * (2 if self._stateful else 1))
        for row, update in enumerate(wanted):
            known = self._contents.pop(update.order.sequence, None)
            if known is None:
                pending.missing += 1
                self._enlist(pending, row, update.order, update.examples)
            else:
                assert pending.rows is not None
                pending.rows[row] = known
                if not np.isfinite(known).all():
                    pending.rejected.add(row)
        for update in step.dropped:
            self._contents.pop(update.order.sequence, None)

    def _enlist(self, pending: _Pending, row: int, order: Order, examples: int) -> None:
        self._numbers += 1
        self._tasks[self._numbers] = _Task(pending, row, order)
        entry = (pending.decided.version, -examples, self._numbers)
        if order.version <= self.version:
            heappush(self._ready, entry)
        else:
            self._waiting[order.version].append(entry)

    # 2. keep the workers busy

    def _hand_out(self, evaluations_only: bool = False) -> None:
        kept = []
        while self._ready and self._under_way < self._executor.depth:
            entry = heappop(self._ready)
            number = entry[2]
            task = self._tasks[number]
            if task.evaluation is not None:
                self._executor.evaluate(number, self._versions.slot(task.evaluation.version), task.row)
            elif evaluations_only:
                kept.append(entry)
                continue
            else:
                self._train(number, task)
            self._under_way += 1
        for entry in kept:
            heappush(self._ready, entry)

    def _train(self, number: int, task: _Task) -> None:
        pending, order = task.pending, task.order
        assert pending is not None
        assert order is not None
        job = Job(order.client, order.occurrence, self._training.rate(order.version, order.time))
        state = None
        if self._stateful:
            state = self._state_slot(order.client), pending.first + len(pending.orders) + task.row
        self._executor.train(number, job, self._versions.slot(order.version), pending.first + task.row, state)

    def _state_slot(self, client: ClientId) -> int:
        if client not in self._state_slots:
            state = self._states.get(client)
            self._state_slots[client] = self._executor.publish(np.zeros_like(self.params) if state is None else state)
        return self._state_slots[client]

    def _collect(self) -> None:
        began = perf_counter()
        results = self._executor.collect()
        self.counts.wait += perf_counter() - began
        for result in results:
            self._under_way -= 1
            task = self._tasks.pop(result.task)
            if self._watching_since is not None:
                self.counts.idle += result.waited
            if isinstance(result, Trained):
                self._trained(task, result)
            else:
                self._evaluated(task, result)
        now = perf_counter()
        if self._watching_since is not None:
            self.counts.watched += (now - self._watching_since) * self._executor.workers
        if self.time > 3600:
            self._watching_since = now

    def _trained(self, task: _Task, result: Trained) -> None:
        assert task.pending is not None
        task.pending.missing -= 1
        if not result.finite:
            task.pending.rejected.add(task.row)
        task.pending.results.append(result)

    # 3. apply steps in order

    def _apply_next(self) -> bool:
        if not self._pending or self._pending[0].missing:
            return False
        pending = self._pending.popleft()
        self._announce(pending.events)
        began = perf_counter()
        decided = pending.decided
        step, rejected = self._accepted(pending)
        if step.used:
            assert pending.rows is not None
            chosen = pending.rows[: len(decided.step.used)]
            rows = (
                chosen if not rejected else chosen[[row for row in range(len(chosen)) if row not in pending.rejected]]
            )
            self._memory, params = self._algorithm.apply(self._memory, self.params, step, rows)
            self.params = self._checked(params)
        if pending.rows is not None:
            if self._stateful:
                self._keep_states(pending, pending.rows)
            self._executor.release(pending.first)
        self._evaluate_until(decided.time)
        self.version, self.time = decided.version, decided.time
        self._versions.add(self.version, self.params)
        for entry in self._waiting.pop(self.version, ()):
            heappush(self._ready, entry)
        self._ahead -= len(pending.orders)
        self.counts.used += len(step.used)
        self.counts.dropped += len(step.dropped)
        self.counts.rejected += len(rejected)
        self.counts.add_jobs(pending.results)  # now, so that what a checkpoint counts fits its version
        self._outbox.put(Applied(decided._replace(step=step), rejected))
        for update in (*decided.step.used, *decided.step.dropped):
            self._versions.let_go(update.base_version)
        self.counts.apply += perf_counter() - began
        if self._every and self.version % self._every == 0:
            self._evaluate(self.time)
        if perf_counter() - self._saved_at > self._checkpoint_seconds:
            self.save()
        self._post()
        return True

    def _checked(self, params: Vector) -> Vector:
        if np.shape(params) != self.params.shape or params.dtype != np.float32:
            found = f"{type(params).__name__} of shape {np.shape(params)}"
            raise UserError(f"`algorithm.apply` must return a float32 vector of {len(self.params)}, got a {found}.")
        return params

    def _accepted(self, pending: _Pending) -> tuple[Step, list[Update]]:
        """The step without updates that are not finite, as if they had not been used."""
        step = pending.decided.step
        if not pending.rejected & set(range(len(step.used))):
            return step, []
        used = tuple(update for row, update in enumerate(step.used) if row not in pending.rejected)
        rejected = [update for row, update in enumerate(step.used) if row in pending.rejected]
        return step._replace(used=used, weights=self._algorithm.weigh(used) if used else ()), rejected

    def _keep_states(self, pending: _Pending, rows: Matrix) -> None:
        for row, order in enumerate(pending.orders):
            if row not in pending.rejected:
                self._states[order.client] = rows[len(pending.orders) + row].copy()
                self._executor.retire(self._state_slots.pop(order.client))

    def _announce(self, events: Sequence[Event]) -> None:
        for event in events:
            self._evaluate_until(event.time)
            self._outbox.put(event)
            if isinstance(event, Arrived):
                self.counts.arrived += 1
            elif isinstance(event, Lost):
                self.counts.lost += 1
                self._versions.let_go(event.order.version)

    # 4. evaluate and record

    def _evaluate_until(self, time: float, including: bool = False) -> None:
        """The moments of the grid before `time` see the version that exists now."""
        while self._grid and (self._grid[0] < time or (including and self._grid[0] <= time)):
            self._evaluate(self._grid.popleft())

    def _evaluate(self, time: float) -> None:
        if self._evaluation is None or self._evaluation.version != self.version:
            self._evaluation = Evaluation(self.version, self._parts)
            self.counts.evaluations += 1
            self._versions.use(self.version)
            for part in range(self._parts):
                self._numbers += 1
                self._tasks[self._numbers] = _Task(None, part, None, self._evaluation)
                heappush(self._ready, (self.version + _EVALUATION_SLACK, 0, self._numbers))
        self._outbox.put(Moment(time, self._evaluation))

    def _evaluated(self, task: _Task, result: Evaluated) -> None:
        evaluation = task.evaluation
        assert evaluation is not None
        evaluation.add(task.row, result)
        self.counts.evaluate += result.seconds
        if not evaluation.missing:
            self._versions.let_go(evaluation.version)
            self._post()

    def _post(self) -> None:
        began = perf_counter()
        self._outbox.post()
        self.counts.record += perf_counter() - began

    # taking up a run again

    def _take_up(self, checkpoint: Checkpoint) -> None:
        """Read the plan up to the checkpoint, without doing it, and continue from there."""
        if len(checkpoint.params) != len(self.params):
            sizes = f"{len(checkpoint.params)} parameters, and the model has {len(self.params)}"
            raise UserError(f"The checkpoint has {sizes}: the configuration was changed after the run began.")
        while checkpoint.version > 0:
            pending = self._next_step()
            if pending is None:
                raise UserError("The run ends before its checkpoint: its configuration was changed after it began.")
            for event in pending.events:
                if isinstance(event, Lost):
                    self._versions.let_go(event.order.version)
            for update in (*pending.decided.step.used, *pending.decided.step.dropped):
                self._versions.let_go(update.base_version)
            if pending.decided.version == checkpoint.version:
                self.time = pending.decided.time
                break
        while self._grid and self._grid[0] < self.time:
            self._grid.popleft()
        self.version, self.params = checkpoint.version, checkpoint.params
        self._memory, self._states = dict(checkpoint.memory), dict(checkpoint.states)
        self.counts = Counts(**checkpoint.counts)
        self._versions.restore(checkpoint.versions, checkpoint.version, checkpoint.params)
