"""One single-threaded worker process a core. Data and vectors are in memory that all of them map.

Workers are started as plain subprocesses, not forked and not through `multiprocessing`: a script needs no
`if __name__ == "__main__"`, a notebook's own classes travel by value, and a worker ends with its server.
A worker that dies is replaced and given its tasks again; a task depends on its arguments alone, so nothing changes.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Annotated, Any, final

import cloudpickle
from annotated_types import Ge, Le

from afbs.clients.workload import Workload
from afbs.executors._arena import Arena, unnamed_memory
from afbs.executors._failure import failure
from afbs.executors._files import Shared
from afbs.executors._local import LocalSession
from afbs.executors._states import States
from afbs.interfaces import Executor, WorkerPool
from afbs.types import Assignment, Evaluated, Fetch, RunError, Shipped, Train, UserError, Vector

_QUEUE = 2
"""Tasks a worker has at hand, so that it finds the next one while the server looks at the last."""
_LIVES = 3
"""How often workers may die before the run is given up."""
_FILES_EACH = 4
"""File descriptors that the server needs for a worker."""


@final
@dataclass(frozen=True)
class Processes(Executor):
    """One single-threaded process for each of `workers`; 0 is one for each core that this process may use."""

    workers: Annotated[int, Ge(0), Le(4096)] = 0
    """How many; 0: one for each core."""

    @property
    def number(self) -> int:
        if self.workers:
            return self.workers
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def start(self) -> ProcessPool:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = max(1, (allowed - 64) // _FILES_EACH)
        if self.number > most:
            raise UserError(
                f"`executor.workers` = {self.number} needs more open files than this process may have ({allowed}). "
                f"At most {most} workers, or `ulimit -n {_FILES_EACH * self.number + 64}`, would do."
            )
        return ProcessPool(self.number)


class WorkerError(RunError):
    """Training raised an exception in a worker; the message has its traceback."""


@final
class _Worker:
    def __init__(self, memory: int):
        ours, theirs = socket.socketpair()
        lifeline, held = os.pipe()
        self._held: int | None = held
        command = [sys.executable, "-m", "afbs.executors._worker", *map(str, (theirs.fileno(), memory, lifeline))]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, **threads, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(), memory, lifeline),
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is the server's to handle
        )
        theirs.close()
        os.close(lifeline)
        self.connection = Connection(ours.detach())
        self.tasks: deque[tuple[Assignment | None, tuple[int, ...]]] = deque()

    def brief(self, payload: bytes) -> None:
        """What it is to work on, once that is known. Until then it has been importing libraries."""
        with suppress(OSError):  # it has died already: it will not greet
            self.connection.send(sys.path)
            self.connection.send_bytes(payload)

    def give(self, task: Assignment | None, slots: tuple[int, ...] = ()) -> None:
        self.tasks.append((task, slots))
        with suppress(OSError):  # it has died: `collect` finds out, and its tasks are given again
            self.connection.send((task, slots))

    def end(self) -> int:
        """At once, whatever it is doing. What it exited with; again, too."""
        if self._held is not None:
            os.close(self._held)
            self._held = None  # its number may soon be another file's
        self.connection.close()
        self.process.kill()
        return self.process.wait()


@final
class ProcessPool(WorkerPool):
    """Worker processes, and the memory they share. They start up while their server still prepares their work."""

    def __init__(self, number: int):
        self.memory = unnamed_memory()
        self.workers: list[_Worker] = []
        self._closed = False
        try:
            for _ in range(number):
                self.workers.append(_Worker(self.memory))
        except OSError as error:
            self.close()
            raise RunError(f"{number} worker processes could not be started: {error.strerror}.") from error

    def session(self, workload: Workload) -> ProcessSession:
        return ProcessSession(workload, self)

    def replaced(self, worker: _Worker) -> _Worker:
        """A new one in the place of one that has died."""
        fresh = _Worker(self.memory)
        self.workers[self.workers.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in self.workers:
            worker.end()
        os.close(self.memory)


@final
class ProcessSession(LocalSession):
    """Each process has `depth / workers` tasks at hand."""

    def __init__(self, workload: Workload, pool: ProcessPool):
        self.workers = len(pool.workers)
        self.depth = self.workers * _QUEUE
        self._pool = pool
        self._lives = _LIVES
        self._shared = Shared(workload)
        try:
            self._payload = cloudpickle.dumps(self._shared.workload)
            for worker in pool.workers:
                worker.brief(self._payload)
            sizes = [self._greeting(worker) for worker in pool.workers]
        except BaseException:
            self.close()
            raise
        self.store = Arena(sizes[0], pool.memory)
        self.states = States(self.store, sizes[0]) if workload.stateful else None

    def initial(self) -> Vector:
        slot = self.store.block(1)[0]
        worker = self._pool.workers[0]
        worker.give(None, (slot,))
        self._result(worker)
        vector: Vector = self.store.get(slot).copy()
        self.store.release(slot)
        return vector

    def submit(self, task: Assignment) -> None:
        if isinstance(task, Fetch):
            raise ValueError("There is nowhere to fetch from: everything is trained here.")
        slots = self.states.slots(task.order) if self.states and isinstance(task, Train) else ()
        min(self._pool.workers, key=lambda worker: len(worker.tasks)).give(task, slots)

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        busy = {worker.connection: worker for worker in self._pool.workers if worker.tasks}
        return [self._result(busy[found]) for found in wait(list(busy), seconds)] if busy else []  # type: ignore[index]

    def close(self) -> None:
        self._shared.close()

    def _greeting(self, worker: _Worker) -> int:
        try:
            return int(self._answer(worker))
        except (EOFError, ConnectionError) as error:
            raise WorkerError(f"A worker did not start; its exit code is {worker.process.wait()}.") from error

    def _result(self, worker: _Worker) -> Any:
        while True:
            try:
                result = self._answer(worker)
                worker.tasks.popleft()
                return result
            except (EOFError, ConnectionError) as error:
                worker = self._replaced(worker, error)

    def _answer(self, worker: _Worker) -> Any:
        answer = worker.connection.recv()
        if isinstance(answer, tuple) and answer[0] == "refused":
            raise UserError(answer[1])
        if isinstance(answer, tuple) and answer[0] == "failed":
            raise WorkerError(failure(answer[1]))
        return answer

    def _replaced(self, worker: _Worker, error: Exception) -> _Worker:
        code = worker.end()
        self._lives -= 1
        if self._lives < 0:
            raise WorkerError(f"Workers keep dying; the last one with exit code {code} ({_meaning(code)}).") from error
        fresh = self._pool.replaced(worker)
        fresh.brief(self._payload)
        self._greeting(fresh)
        for task, slots in worker.tasks:
            fresh.give(task, slots)
        return fresh


def _meaning(code: int) -> str:
    if code == -9:
        return "killed, perhaps because memory was short"
    if code == -4:
        return (
            "an instruction that this machine does not have; with `training.precision` = 'bfloat16', the environment "
            "variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may help"
        )
    return f"signal {-code}" if code < 0 else "see what it wrote above"
