"""Everything in this process, one task after another: for debugging, and the reference for all other executors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final

import numpy as np
import torch

from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.interfaces import Executor
from afbs.types import Evaluated, Job, Matrix, Trained, Vector


@final
class Inline(Executor):
    """Breakpoints work, tracebacks are whole, and no process is started."""

    workers = 1
    depth = 1

    def __init__(self, workload: Workload):
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._trainer = Trainer(workload)
        self._size = len(self._trainer.initial())
        self._rows: dict[int, Vector] = {}
        self._blocks: dict[int, int] = {}
        self._next = 0
        self._peak = 0
        self._tasks: deque[Callable[[], Trained | Evaluated]] = deque()

    def initial(self) -> Vector:
        return self._trainer.initial()

    def publish(self, vector: Vector) -> int:
        self._next += 1
        self._rows[self._next] = vector
        self._peak = max(self._peak, len(self._rows))
        return self._next

    def read(self, slot: int) -> Vector:
        return self._rows[slot]

    def retire(self, slot: int) -> None:
        del self._rows[slot]

    def block(self, rows: int) -> tuple[int, Matrix]:
        matrix = np.empty((rows, self._size), np.float32)
        first = self._next + 1
        self._next += rows
        self._rows.update({first + row: matrix[row] for row in range(rows)})
        self._blocks[first] = rows
        self._peak = max(self._peak, len(self._rows))
        return first, matrix

    def release(self, first: int) -> None:
        for row in range(self._blocks.pop(first)):
            del self._rows[first + row]

    def train(self, task: int, job: Job, base: int, out: int, state: tuple[int, int] | None = None) -> None:
        old, new = (None, None) if state is None else (self._rows[state[0]], self._rows[state[1]])
        vectors = self._rows[base], self._rows[out], old, new
        self._tasks.append(lambda: self._trainer.train(task, job, *vectors))

    def evaluate(self, task: int, base: int, part: int) -> None:
        vector = self._rows[base]
        self._tasks.append(lambda: self._trainer.evaluate(task, vector, part))

    def collect(self) -> list[Trained | Evaluated]:
        return [self._tasks.popleft()()] if self._tasks else []

    @property
    def peak_bytes(self) -> int:
        return 4 * self._size * self._peak

    def close(self) -> None:
        torch.set_num_threads(self._threads)
