"""One single-threaded worker process a core. Data and vectors are in memory that all of them map.

Workers are started as plain subprocesses, not forked and not through `multiprocessing`: a script needs no
`if __name__ == "__main__"`, a notebook's own classes travel by value, and a worker ends with its server.
A worker that dies is replaced and given its tasks again; a task depends on its arguments alone, so nothing changes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, final

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from afbs.clients.workload import Workload
from afbs.engine.executors.arena import Arena, unnamed_file
from afbs.interfaces import Executor
from afbs.types import Evaluated, Job, Matrix, RunError, Trained, UserError, Vector

_QUEUE = 2
"""Tasks a worker has at hand, so that it finds the next one while the server looks at the last."""
_LIVES = 3
"""How often workers may die before the run is given up."""


class WorkerError(RunError):
    """Training raised an exception in a worker; the message has its traceback."""


@final
class _Worker:
    def __init__(self, memory: int):
        ours, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        command = [sys.executable, "-m", "afbs.engine.executors.worker", str(theirs.fileno()), str(memory)]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        package = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, **threads, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(), memory),
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is the server's to handle
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self.briefed = False
        self.tasks: deque[tuple[Any, ...]] = deque()

    def brief(self, payload: bytes) -> None:
        """What it is to work on, once that is known. Until then it has been importing libraries."""
        self.briefed = True
        with suppress(OSError):  # it has died already: it will not greet
            self.connection.send(sys.path)
            self.connection.send_bytes(payload)

    def give(self, message: tuple[Any, ...]) -> None:
        self.tasks.append(message)
        with suppress(OSError):  # it has died: `collect` finds out, and its tasks are given again
            self.connection.send(message)


@final
class Staff:
    """Worker processes, and the memory they share. They start up while their server still prepares their work."""

    def __init__(self, number: int):
        self.memory = unnamed_file()
        self.workers = [_Worker(self.memory) for _ in range(number)]
        self._dismissed = False

    def close(self) -> None:
        """Lets everybody go; again does nothing."""
        if self._dismissed:
            return
        self._dismissed = True
        for worker in self.workers:
            worker.connection.close()
            if not worker.briefed:
                worker.process.kill()
        for worker in self.workers:
            worker.process.wait()
        os.close(self.memory)


@final
class Processes(Executor):
    """The default. Each process has `depth / workers` tasks at hand."""

    def __init__(self, workload: Workload, staff: Staff):
        self.workers = len(staff.workers)
        self.depth = self.workers * _QUEUE
        self._staff = staff
        self._lives = _LIVES
        self._spill = tempfile.TemporaryDirectory(prefix="afbs-")
        try:
            self._payload = cloudpickle.dumps(_shared(workload, Path(self._spill.name)))
            for worker in staff.workers:
                worker.brief(self._payload)
            sizes = [self._greeting(worker) for worker in staff.workers]
        except BaseException:
            self.close()
            raise
        self._arena = Arena(sizes[0], staff.memory)

    def initial(self) -> Vector:
        slot = self._arena.allocate(1)
        worker = self._staff.workers[0]
        worker.connection.send(("initial", 0, slot))
        worker.connection.recv()
        vector: Vector = self._arena.rows(slot, 1)[0].copy()
        self._arena.free(slot)
        return vector

    def publish(self, vector: Vector) -> int:
        slot = self._arena.allocate(1)
        self._arena.rows(slot, 1)[0] = vector
        return slot

    def read(self, slot: int) -> Vector:
        vector: Vector = self._arena.rows(slot, 1)[0]
        return vector

    def retire(self, slot: int) -> None:
        self._arena.free(slot)

    def block(self, rows: int) -> tuple[int, Matrix]:
        first = self._arena.allocate(rows)
        return first, self._arena.rows(first, rows)

    def release(self, first: int) -> None:
        self._arena.free(first)

    def train(self, task: int, job: Job, base: int, out: int, state: tuple[int, int] | None = None) -> None:
        self._least_busy().give(("train", task, job, base, out, state))

    def evaluate(self, task: int, base: int, part: int) -> None:
        self._least_busy().give(("evaluate", task, base, part))

    def collect(self) -> list[Trained | Evaluated]:
        busy = {worker.connection: worker for worker in self._staff.workers if worker.tasks}
        return [self._result(busy[connection]) for connection in wait(list(busy))] if busy else []  # type: ignore[index]

    @property
    def peak_bytes(self) -> int:
        return self._arena.peak_bytes

    def close(self) -> None:
        self._staff.close()
        self._spill.cleanup()

    def _least_busy(self) -> _Worker:
        return min(self._staff.workers, key=lambda worker: len(worker.tasks))

    def _greeting(self, worker: _Worker) -> int:
        try:
            return int(self._answer(worker))
        except (EOFError, ConnectionError) as error:
            raise WorkerError(f"A worker did not start; its exit code is {worker.process.wait()}.") from error

    def _result(self, worker: _Worker) -> Trained | Evaluated:
        while True:
            try:
                result: Trained | Evaluated = self._answer(worker)
                worker.tasks.popleft()
                return result
            except (EOFError, ConnectionError) as error:
                worker = self._replaced(worker, error)

    def _answer(self, worker: _Worker) -> Any:
        answer = worker.connection.recv()
        if isinstance(answer, tuple) and answer[0] == "refused":
            raise UserError(answer[1])
        if isinstance(answer, tuple) and answer[0] == "failed":
            raise WorkerError(f"A worker failed:\n{answer[1]}")
        return answer

    def _replaced(self, worker: _Worker, error: Exception) -> _Worker:
        code = worker.process.wait()
        self._lives -= 1
        if self._lives < 0:
            raise WorkerError(f"A worker died with exit code {code}; it was not the first.") from error
        fresh = _Worker(self._staff.memory)
        self._staff.workers[self._staff.workers.index(worker)] = fresh
        fresh.brief(self._payload)
        self._greeting(fresh)
        for message in worker.tasks:
            fresh.give(message)
        return fresh


def _shared(workload: Workload, folder: Path) -> Workload:
    """The same workload with its arrays as files that workers map instead of copying."""
    data = workload.dataset
    arrays = {name: getattr(data, name) for name in ("train_x", "train_y", "test_x", "test_y")}
    files: Any = {name: _mapped(array, folder / f"{name}.npy") for name, array in arrays.items()}
    return replace(workload, dataset=replace(data, owners=None, **files))


def _mapped(array: NDArray[Any], path: Path) -> _File:
    """Where the array is a whole `.npy` file already, that file; otherwise one that is written now."""
    if isinstance(array, np.memmap) and array.filename is not None and str(array.filename).endswith(".npy"):
        whole = np.load(array.filename, mmap_mode="r")
        if whole.shape == array.shape and whole.dtype == array.dtype and whole.offset == array.offset:
            return _File(str(array.filename))
    try:
        np.save(path, array, allow_pickle=False)
    except OSError as error:
        raise UserError(f"The data could not be written where the workers can map it ({path}): {error}.") from error
    return _File(str(path))


@final
class _File:
    """Pickles as a path and unpickles as the memory-mapped array."""

    def __init__(self, path: str):
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return np.load, (self._path, "r")
