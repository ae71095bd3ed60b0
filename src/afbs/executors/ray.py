"""Workers on the machines of a Ray cluster. The plan stays here; only jobs travel.

A version of the model is put into the object store once and fetched once a worker; results come back into this
process's own memory. Workers on this machine have that memory themselves, as those of `processes` do. A worker that
dies is replaced and given its tasks again; a task depends on its arguments alone, so nothing changes. Ray has no guard
at its door: keep its ports behind a firewall (`docs/scale.md`).
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, final

import cloudpickle
from annotated_types import Ge, Le

from afbs.clients.workload import Workload
from afbs.executors._arena import Arena, unnamed_memory
from afbs.executors._files import Shared
from afbs.executors._local import LocalSession
from afbs.executors._ray_parcels import CALLS, Handed
from afbs.executors._states import States
from afbs.interfaces import Executor, Store, WorkerPool
from afbs.types import Assignment, Evaluated, Fetch, Matrix, RunError, Shipped, Train, UserError, Vector

_CALL_SECONDS = 0.25
_CALL_TASKS = 64
_CALL_BYTES = 1 << 26
_COST_SECONDS = 0.003
"""A call costs one process here so much processor time, for all workers. So short tasks share one: as many as take so
long, or as keep that process half idle; but not more than so many, and not more bytes."""
_GROWTH, _RETREAT = 1.05, 0.5
"""How the number of tasks under way changes: while the server has enough of them, and when it has run out. At first
there may be any number."""
_LEARNING = 0.05
"""What each task changes of the mean of what they take."""
_GONE = "The Ray cluster cannot be reached any more. The run has been kept as far as its last checkpoint: resume it."
_PATIENCE_SECONDS = 20


@final
@dataclass(frozen=True)
class Ray(Executor):
    """Workers on a Ray cluster, each with so many `cpus`, `gpus` and megabytes of `memory`; 0 `workers` fill it.

    Without an `address` a cluster is started on this machine; "auto" is the one that runs here already.
    """

    workers: Annotated[int, Ge(0), Le(100_000)] = 0
    """How many; 0: as many as the cluster has room for."""
    cpus: Annotated[float, Ge(0)] = 1.0
    """Of each worker, as Ray counts them."""
    gpus: Annotated[float, Ge(0)] = 0.0
    """Of each worker."""
    memory: Annotated[float, Ge(0)] = 0.0
    """MB that a worker needs, so that Ray does not put too many on one machine."""
    address: str = ""
    """Of the cluster; `auto` is the one that runs here, and without one a cluster is started on this machine."""

    @property
    def number(self) -> int:
        """Those of this machine, as long as nobody has asked the cluster."""
        return self.workers or os.cpu_count() or 1

    def start(self) -> RayPool:
        if importlib.util.find_spec("ray") is None:
            raise UserError("`executor.name` = 'ray' needs Ray: pip install 'afbs[ray]'.")
        return RayPool(self)


@final
class RayPool(WorkerPool):
    """The process that talks to Ray, and the memory it shares with this one."""

    def __init__(self, settings: Ray):
        self.memory = unnamed_memory()
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        usage = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "afbs.executors._ray_driver", str(theirs.fileno()), str(self.memory)],
            pass_fds=(theirs.fileno(), self.memory),
            env={**usage, **os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is the server's to handle
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self._closed = False
        with suppress(OSError):  # it has died already: it will not greet
            self.connection.send(sys.path)
            self.connection.send(asdict(settings))

    def session(self, workload: Workload) -> RaySession:
        return RaySession(workload, self)

    def close(self) -> None:
        """It lets its actors go when it finds nobody at the other end."""
        if self._closed:
            return
        self._closed = True
        self.connection.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.memory)


@final
class RaySession(LocalSession):
    """Tasks go to the process that talks to Ray, and come back when their vectors are in the memory it shares."""

    def __init__(self, workload: Workload, pool: RayPool):
        self._connection = pool.connection
        self._under_way = 0
        self._shared = Shared(workload)
        try:
            with suppress(OSError):
                self._connection.send_bytes(cloudpickle.dumps(self._shared.workload))
            self._initial, self.workers = self._heard()
        except BaseException:
            self.close()
            raise
        size = len(self._initial)
        self._most = max(1, min(_CALL_TASKS, _CALL_BYTES // (4 * max(1, size))))
        self._call_seconds = max(_CALL_SECONDS, 2 * _COST_SECONDS * self.workers)
        self._task_seconds = self._call_seconds
        self._least = self.depth = CALLS * self.workers
        self._room = inf
        self._outgoing: list[Any] = []
        self.store: _Numbered = _Numbered(Arena(size, pool.memory), self._outgoing)
        self.states = States(self.store, size) if workload.stateful else None

    def initial(self) -> Vector:
        vector: Vector = self._initial.copy()
        return vector

    def submit(self, task: Assignment) -> None:
        if isinstance(task, Fetch):
            raise ValueError("There is nowhere to fetch from: everything is trained here.")
        slots = self.states.slots(task.order) if self.states and isinstance(task, Train) else ()
        self._under_way += 1
        self._outgoing.append(Handed(task, slots, self.store.version(task.base)))

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        """Sends off what has been submitted since the last time: together, so that it can be shared out well."""
        if self._outgoing:
            with suppress(OSError):  # it is gone, as will be found out
                self._connection.send(self._outgoing)
            self._outgoing.clear()
        dry = self._under_way < self.depth
        found: list[Shipped | Evaluated] = []
        while self._under_way > len(found) and self._connection.poll(0 if found else seconds):
            found += self._heard()
        self._under_way -= len(found)
        self._adapt(found, dry)
        return found

    def _adapt(self, found: list[Shipped | Evaluated], dry: bool) -> None:
        """So many tasks at hand that calls are as long as they should be; but fewer where the server runs dry.

        What is handed out cannot be put off for what turns out to be needed sooner. A server that has handed out all it
        has would wait for the last of it, and its workers for the server."""
        for result in found:
            self._task_seconds += _LEARNING * (result.seconds - self._task_seconds)
        fitting = int(self._call_seconds / max(self._task_seconds, 1e-6))
        most = self._least * max(1, min(fitting, self._most))
        self._room = min(max(self._room * (_RETREAT if dry else _GROWTH), self._least), most)
        self.depth = int(self._room)

    def close(self) -> None:
        self._shared.close()

    def _heard(self) -> Any:
        try:
            told = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise RunError(_GONE) from error
        if type(told) is tuple and told[0] == "refused":
            raise UserError(told[1])
        if type(told) is tuple and told[0] == "failed":
            raise RunError(told[1])
        return told


@final
class _Numbered(Store):
    """Rows of the shared memory. What is put has a number of its own, for a row is used again."""

    def __init__(self, arena: Arena, outgoing: list[Any]):
        self._arena, self._outgoing = arena, outgoing
        self._numbers = count()
        self._version: dict[int, int] = {}

    def version(self, slot: int) -> int:
        if slot not in self._version:
            self._version[slot] = next(self._numbers)
        return self._version[slot]

    def put(self, vector: Vector) -> int:
        return self._arena.put(vector)

    def get(self, slot: int) -> Vector:
        return self._arena.get(slot)

    def drop(self, slot: int) -> None:
        if slot in self._version:
            self._outgoing.append(self._version.pop(slot))
        self._arena.drop(slot)

    def block(self, rows: int) -> tuple[int, Matrix]:
        return self._arena.block(rows)

    def release(self, first: int) -> None:
        self._arena.release(first)

    @property
    def peak_bytes(self) -> int:
        return self._arena.peak_bytes
