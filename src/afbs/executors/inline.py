"""Everything in this process, one task after another: for debugging, and the reference for all other executors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import final

from afbs.clients.workload import Workload
from afbs.executors._local import LocalSession
from afbs.executors._rows import Rows
from afbs.executors._states import States, rows
from afbs.interfaces import Executor, WorkerPool
from afbs.types import Assignment, Evaluate, Evaluated, Fetch, Shipped, Train, Vector


@final
@dataclass(frozen=True)
class Inline(Executor):
    """This process, one task at a time. Breakpoints work, tracebacks are whole."""

    @property
    def number(self) -> int:
        return 1

    def start(self) -> WorkerPool:
        return InlinePool()


@final
class InlinePool(WorkerPool):
    """Nobody but this process. Torch is imported here and not above: a sweep must know this file, and starts sooner."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._threads = torch.get_num_threads()

    def session(self, workload: Workload) -> InlineSession:
        self._torch.set_num_threads(1)
        return InlineSession(workload)

    def close(self) -> None:
        self._torch.set_num_threads(self._threads)


@final
class InlineSession(LocalSession):
    """A queue of tasks; each is done when its result is asked for."""

    workers = 1
    depth = 1

    def __init__(self, workload: Workload):
        from afbs.clients.trainer import Trainer

        self._trainer = Trainer(workload)
        self._initial = self._trainer.initial()
        size = len(self._initial)
        self.store = Rows(size)
        self.states = States(self.store, size) if workload.stateful else None
        self._tasks: deque[Train | Evaluate] = deque()

    def initial(self) -> Vector:
        return self._initial.copy()

    def submit(self, task: Assignment) -> None:
        if isinstance(task, Fetch):
            raise ValueError("There is nowhere to fetch from: everything is trained here.")
        self._tasks.append(task)

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        return [self._done(self._tasks.popleft())] if self._tasks else []

    def close(self) -> None:
        self._tasks.clear()

    def _done(self, task: Train | Evaluate) -> Shipped | Evaluated:
        states = self.states.slots(task.order) if self.states and isinstance(task, Train) else ()
        return self._trainer.do(task, rows(self.store, task, states))
