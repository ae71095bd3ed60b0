"""Workers on the machines of a Ray cluster. The plan stays here; only jobs travel.

A version of the model is put into the object store once and fetched once a worker; results come back into this
process's own memory. A worker that dies is replaced and given its tasks again; a task depends on its arguments alone,
so nothing changes. Ray has no guard at its door: keep its ports behind a firewall (`docs/scale.md`).
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, final

import cloudpickle
import numpy as np
from annotated_types import Ge, Le

from afbs.clients.workload import Workload
from afbs.data import file_of
from afbs.executors._local import LocalSession
from afbs.executors._ray_worker import ARRAYS, Answer, Where, Worker, mark
from afbs.executors._rows import Rows
from afbs.executors._states import States
from afbs.interfaces import Executor, Store, WorkerPool
from afbs.types import Evaluated, Fetch, Matrix, RunError, Shipped, Task, Train, UserError, Vector

_QUEUE = 3
"""Tasks a worker has at hand, so that it finds the next one while the last one's result is on its way."""
_TRIES = 4
"""How often a task is begun before it is taken to be what its workers die of."""
_GONE = "The Ray cluster cannot be reached any more. The run has been kept as far as its last checkpoint: resume it."


@final
@dataclass(frozen=True)
class Ray(Executor):
    """Workers on a Ray cluster, each with so many `cpus`, `gpus` and megabytes of `memory`; 0 `workers` fill it.

    Without an `address` a cluster is started on this machine; "auto" is the one that runs here already.
    """

    workers: Annotated[int, Ge(0), Le(100_000)] = 0
    cpus: Annotated[float, Ge(0)] = 1.0
    gpus: Annotated[float, Ge(0)] = 0.0
    memory: Annotated[float, Ge(0)] = 0.0
    address: str = ""

    @property
    def number(self) -> int:
        if self.workers:
            return self.workers
        ray = _ray()
        there = ray.cluster_resources() if ray.is_initialized() else {"CPU": os.cpu_count() or 1}
        most = [there.get(kind, 0) // each for kind, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each]
        return max(1, int(min(most, default=1)))

    def start(self) -> RayPool:
        return RayPool(self)


@final
class RayPool(WorkerPool):
    """A connection to a cluster, or a cluster of our own."""

    def __init__(self, settings: Ray):
        self._ray = _ray()
        self._settings = settings
        self._ours = not self._ray.is_initialized()
        self._workers: list[_Actor] = []
        if self._ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            here: dict[str, Any] = {"address": settings.address}
            if not settings.address:
                here = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            try:
                self._ray.init(**here, log_to_driver=False, logging_level="ERROR", configure_logging=True)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                raise RunError(f"`executor.address`: no Ray cluster at {settings.address!r}: {error}") from error

    def actor(self) -> _Actor:
        chosen = self._settings
        options = {"num_cpus": chosen.cpus, "num_gpus": chosen.gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if chosen.memory:
            options["memory"] = int(chosen.memory * 1e6)
        return _Actor(self._ray.remote(Worker).options(**options).remote(list(sys.path)))

    @property
    def number(self) -> int:
        return self._settings.number

    def session(self, workload: Workload) -> RaySession:
        return RaySession(workload, self)

    def close(self) -> None:
        if self._ours and self._ray.is_initialized():
            self._ours = False
            self._ray.shutdown()


@final
class _Actor:
    def __init__(self, handle: Any):
        self.handle = handle
        self.tasks: deque[tuple[Any, Task, tuple[int, ...]]] = deque()


@final
class RaySession(LocalSession):
    """Each actor has up to `depth / workers` tasks at hand."""

    def __init__(self, workload: Workload, pool: RayPool):
        self._ray, self._pool = _ray(), pool
        self._payload, self._files, self._arrays = _parted(workload)
        self._shipped: dict[str, Any] = {}
        self._tries: dict[int, int] = {}
        with _explained():
            self._actors = [pool.actor() for _ in range(pool.number)]
            self._initial = self._briefed(self._actors)
        self.workers = len(self._actors)
        self.depth = self.workers * _QUEUE
        size = len(self._initial)
        self._versions: dict[int, Any] = {}
        self.store = _Kept(Rows(size), self._versions)
        self.states = States(self.store, size) if workload.rule.stateful else None

    def initial(self) -> Vector:
        return self._initial.copy()

    def submit(self, task: Task) -> None:
        if isinstance(task, Fetch):
            raise ValueError("There is nowhere to fetch from: everything is trained here.")
        slots = self.states.slots(task.order) if self.states and isinstance(task, Train) else ()
        self._give(min(self._actors, key=lambda actor: len(actor.tasks)), task, slots)

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        owner = {actor.tasks[0][0]: actor for actor in self._actors if actor.tasks}
        if not owner:
            return []
        with _explained():
            ready, _ = self._ray.wait(list(owner), num_returns=1, timeout=seconds, fetch_local=True)
            if ready:
                ready, _ = self._ray.wait(list(owner), num_returns=len(owner), timeout=0, fetch_local=True)
        found = []
        for reference in ready:
            result = self._result(owner[reference])
            if result is not None:
                found.append(result)
        return found if found or seconds is not None else self.collect(seconds)

    def close(self) -> None:
        with suppress(Exception):
            for actor in self._actors:
                self._ray.kill(actor.handle)
        self._actors = []
        self._versions.clear()

    def _give(self, actor: _Actor, task: Any, slots: tuple[int, ...]) -> None:
        with _explained():
            if task.base not in self._versions:
                self._versions[task.base] = self._ray.put(self.store.get(task.base))
            state = (self.store.get(slots[0]).copy(),) if slots else ()
            # In a list it stays a reference: a worker that has the version does not fetch it again.
            reference = actor.handle.do.remote(task, [self._versions[task.base]], *state)
        actor.tasks.append((reference, task, slots))

    def _result(self, actor: _Actor) -> Shipped | Evaluated | None:
        """What an actor's first task gave; None if the actor has died, and its tasks were given to another."""
        reference, task, slots = actor.tasks[0]
        with _explained():
            try:
                answer = _checked(self._ray.get(reference))
            except self._ray.exceptions.ActorUnavailableError:
                self._replace(actor)
                return None
            except self._ray.exceptions.RayActorError:
                self._replace(actor)
                return None
        actor.tasks.popleft()
        self._tries.pop(task.task, None)
        if isinstance(task, Train):
            for slot, vector in zip((task.out, *slots[1:]), answer.vectors, strict=True):
                np.copyto(self.store.get(slot), vector)
        return answer.result  # type: ignore[no-any-return]

    def _replace(self, actor: _Actor) -> None:
        first = actor.tasks[0][1].task
        self._tries[first] = self._tries.get(first, 1) + 1
        if self._tries[first] > _TRIES:
            raise RunError(
                "Ray workers keep dying of one task, perhaps because memory was short. The run has been kept as far as "
                "its last checkpoint and can be resumed."
            )
        with suppress(Exception):
            self._ray.kill(actor.handle)
        fresh = self._pool.actor()
        self._briefed([fresh])
        self._actors[self._actors.index(actor)] = fresh
        for _, task, slots in actor.tasks:
            self._give(fresh, task, slots)

    def _briefed(self, actors: list[_Actor]) -> Vector:
        """Tells actors what they work on: where a node has no file of the data, it is sent them, once a node."""
        ray = self._ray
        lacking = ray.get([actor.handle.lacks.remote(self._files) for actor in actors])
        nowhere = set(ARRAYS) - set(self._files)
        for name in nowhere.union(*lacking) - set(self._shipped):
            self._shipped[name] = ray.put(np.ascontiguousarray(self._arrays[name]))
        wanted = [
            {name: self._shipped[name] for name in (*names, *(set(ARRAYS) - set(self._files)))} for names in lacking
        ]
        payload = ray.put(self._payload)
        begun = [
            actor.handle.begin.remote(payload, self._files, shipped)
            for actor, shipped in zip(actors, wanted, strict=True)
        ]
        vectors = [_checked(answer).vectors[0] for answer in ray.get(begun)]
        initial: Vector = np.array(vectors[0])
        return initial


@final
class _Kept(Store):
    """Rows of this process; a version that is dropped is dropped from the object store, too."""

    def __init__(self, rows: Rows, versions: dict[int, Any]):
        self._rows, self._versions = rows, versions

    def put(self, vector: Vector) -> int:
        return self._rows.put(vector)

    def get(self, slot: int) -> Vector:
        return self._rows.get(slot)

    def drop(self, slot: int) -> None:
        self._versions.pop(slot, None)
        self._rows.drop(slot)

    def block(self, rows: int) -> tuple[int, Matrix]:
        return self._rows.block(rows)

    def release(self, first: int) -> None:
        self._rows.release(first)

    @property
    def peak_bytes(self) -> int:
        return self._rows.peak_bytes


def _parted(workload: Workload) -> tuple[bytes, dict[str, Where], dict[str, Any]]:
    """A workload without its arrays, where those are files, and the arrays."""
    data = workload.dataset
    arrays = {name: getattr(data, name) for name in ARRAYS}
    places = {name: file_of(array) for name, array in arrays.items()}
    files = {name: Where(str(place), mark(place)) for name, place in places.items() if place is not None}
    empty: Any = dict.fromkeys(ARRAYS)
    return cloudpickle.dumps(replace(workload, dataset=replace(data, owners=None, **empty))), files, arrays


def _checked(answer: Answer) -> Answer:
    if answer.problem == "refused":
        raise UserError(answer.text)
    if answer.problem:
        raise RunError(f"A worker failed:\n{answer.text}")
    return answer


@contextmanager
def _explained() -> Iterator[None]:
    """What Ray raises when there is no cluster any more, as a sentence."""
    try:
        yield
    except (UserError, RunError, KeyboardInterrupt):
        raise
    except Exception as error:
        if type(error).__module__.startswith(("ray.", "grpc")) or isinstance(error, ConnectionError | SystemError):
            raise RunError(f"{_GONE} ({type(error).__name__})") from error
        raise


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise UserError("`executor.name` = 'ray' needs Ray: pip install 'afbs[ray]'.") from None
    return ray
