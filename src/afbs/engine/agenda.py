"""What is to be done, and what is next: jobs that fill rows, and parts of exams, given to a session by urgency.

A job is ready once the version it starts from exists. The one needed soonest goes first, large clients first; an exam
is as urgent as a job that is needed some steps later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, final

from afbs.engine.evaluations import Exam
from afbs.engine.versions import Versions
from afbs.interfaces import Session
from afbs.types import Evaluate, Evaluated, Matrix, Order, Shipped, Train

_EVALUATION_SLACK = 8
"""An evaluation is as urgent as a job that is needed this many steps later."""


@dataclass
class Delivery:
    """Rows that the clients of some orders fill, and what is known of them so far. `told` and `rejected` are by row."""

    orders: list[Order] = field(default_factory=list)
    first: int = -1
    rows: Matrix | None = None
    missing: int = 0
    rejected: set[int] = field(default_factory=set)
    results: list[Shipped] = field(default_factory=list)
    told: dict[int, Mapping[str, float]] = field(default_factory=dict)

    def take(self, row: int, result: Shipped) -> None:
        self.missing -= 1
        self.results.append(result)
        if result.told:
            self.told[row] = result.told
        if result.outcome != "done":
            self.rejected.add(row)


class _Job(NamedTuple):
    delivery: Delivery
    row: int


class _Part(NamedTuple):
    exam: Exam
    number: int


@final
class Agenda:
    """What a session is given to do. Which task is next depends on what is to be done, never on when it was done."""

    def __init__(self, session: Session, versions: Versions):
        self._session, self._versions = session, versions
        self._ready: list[tuple[int, int, int]] = []
        self._waiting: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self._tasks: dict[int, _Job | _Part] = {}
        self._last = 0
        self.under_way = 0
        self.examining = 0
        """Parts of exams that have not been found yet."""

    def deliver(self, delivery: Delivery, row: int, needed: int, examples: int) -> None:
        """A job for one row, which the version `needed` waits for."""
        delivery.missing += 1
        version, entry = delivery.orders[row].version, (needed, -examples, self._number(_Job(delivery, row)))
        if version <= self._versions.newest:
            heappush(self._ready, entry)
        else:
            self._waiting[version].append(entry)

    def examine(self, exam: Exam) -> None:
        """Every part of it, on the version that exists now."""
        self._versions.use(exam.version)
        self.examining += exam.subject.parts
        for part in range(exam.subject.parts):
            heappush(self._ready, (exam.version + _EVALUATION_SLACK, 0, self._number(_Part(exam, part))))

    def exists(self, version: int) -> None:
        """Jobs that start from it can begin."""
        for entry in self._waiting.pop(version, ()):
            heappush(self._ready, entry)

    def hand_out(self, exams_only: bool = False) -> None:
        """As much as keeps the workers busy."""
        kept = []
        while self._ready and self.under_way < self._session.depth:
            entry = heappop(self._ready)
            number, task = entry[2], self._tasks[entry[2]]
            if isinstance(task, _Part):
                slot = self._versions.slot(task.exam.version)
                self._session.submit(Evaluate(number, slot, task.number, task.exam.subject.local))
            elif exams_only:
                kept.append(entry)
                continue
            else:
                order = task.delivery.orders[task.row]
                base = self._versions.slot(order.version)
                self._session.submit(Train(number, order, base, task.delivery.first + task.row))
            self.under_way += 1
        for entry in kept:
            heappush(self._ready, entry)

    def collect(self) -> list[Shipped | Evaluated]:
        """What has been done since, each put where it belongs."""
        results = list(self._session.collect())
        for result in results:
            self.under_way -= 1
            task = self._tasks.pop(result.task)
            if isinstance(task, _Job):
                assert isinstance(result, Shipped)
                task.delivery.take(task.row, result)
            else:
                assert isinstance(result, Evaluated)
                self.examining -= 1
                task.exam.add(task.number, result)
                if not task.exam.missing:
                    self._versions.let_go(task.exam.version)
        return results

    def _number(self, task: _Job | _Part) -> int:
        self._last += 1
        self._tasks[self._last] = task
        return self._last
