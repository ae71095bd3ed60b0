"""The process that talks to Ray for the executor `ray`, started by it as `python -m afbs.executors._ray_driver`.

Ray ends a process that has lost its cluster, without a word. So it is not the server's: this one shares the server's
memory as a worker of `processes` does, hands tasks on to Ray's actors, and writes what they ship where it belongs. If
it is gone, so is the cluster, and the server can say so.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, final

import numpy as np

from afbs.executors._arena import Arena
from afbs.executors._failure import failure
from afbs.executors._ray_memory import Neighbour, offered
from afbs.executors._ray_parcels import ARRAYS, CALLS, Given, Handed, Met, Reply, Where
from afbs.executors._ray_worker import Worker, mark
from afbs.types import Matrix, RunError, Train, UserError, Vector

_TRIES = 4
"""How often a task is begun before it is taken to be what its workers die of."""
_DEADLY = "Ray workers keep dying of one task, perhaps because memory was short."


def main() -> None:
    connection, memory = Connection(int(sys.argv[1])), int(sys.argv[2])
    with suppress(EOFError, ConnectionError):  # the server is gone, and nobody is left to tell
        try:
            _serve(connection, memory)
        except (EOFError, ConnectionError):
            raise
        except UserError as error:
            connection.send(("refused", str(error)))
        except RunError as error:
            connection.send(("failed", str(error)))
        except Exception:
            connection.send(("failed", traceback.format_exc()))
    os._exit(0)  # a thread still waits for the server


def _serve(connection: Connection, memory: int) -> None:
    import cloudpickle
    import ray

    sys.path[:] = connection.recv()
    settings: dict[str, Any] = connection.recv()
    _connect(ray, settings["address"])
    try:
        crew = Crew(ray, settings, cloudpickle.loads(connection.recv_bytes()), memory)
        connection.send([crew.initial, crew.number])
        threading.Thread(target=_listen, args=(connection, crew), daemon=True).start()
        while True:
            if results := crew.results():
                connection.send(results)
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    here: dict[str, Any] = {"address": address}
    if not address:
        here = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(**here, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise RunError(f"`executor.address`: there is no Ray cluster at {address!r}: {error}") from error


def _listen(connection: Connection, crew: Crew) -> None:
    """Takes tasks, and versions to forget, until the server closes the connection."""
    try:
        while True:
            crew.hear(connection.recv())
    except (EOFError, ConnectionError):
        with suppress(Exception):
            crew.ray.shutdown()
        os._exit(0)
    except Exception as error:
        crew.fail(error)


@final
class _Actor:
    def __init__(self, handle: Any):
        self.handle = handle
        self.neighbour: Neighbour | None = None
        """Its process, if it writes into the server's memory itself."""
        self.calls: dict[_Call, Any] = {}
        """In the order in which they were made, with Ray's references to what they will give."""


@final
@dataclass(frozen=True, eq=False)
class _Call:
    actor: _Actor
    tasks: list[Handed]


@final
class Crew:
    """The actors of a session, each with its calls in order, and the tasks that no call has been made for.

    The server hands out no more than is good for its run. So all that is here is shared out at once, in equal calls:
    the fewer tasks there are, the fewer go into one, and all actors are done at about the same time.
    """

    def __init__(self, ray: Any, settings: dict[str, Any], workload: Any, memory: int):
        self.ray = ray
        self._memory = offered(memory, ray.get_runtime_context().get_node_id())
        self._settings = settings
        self._payload, self._files, self._arrays = _parted(workload)
        self._shipped: dict[str, Any] = {}
        self._versions: dict[int, Any] = {}
        self._tries: dict[int, int] = {}
        self._waiting: deque[Handed] = deque()
        self._called = 0
        self._ended: SimpleQueue[tuple[_Call, Future[Any]] | Exception] = SimpleQueue()
        self._lock = threading.Lock()
        self._actors = [self._actor() for _ in range(self._size())]
        self.number = len(self._actors)
        self.initial = self._briefed(self._actors)
        self._arena = Arena(len(self.initial), memory)

    def hear(self, told: list[Handed | int]) -> None:
        """Tasks to do, and versions that no task will start from."""
        with self._lock:
            for one in told:
                if isinstance(one, int):
                    self._versions.pop(one, None)
                else:
                    self._waiting.append(one)
            self._hand_out()

    def fail(self, error: Exception) -> None:
        """Let whoever asks for results have this."""
        self._ended.put(error)

    def results(self) -> tuple[Any, ...]:
        """What the next call to end gave; nothing if its actor has died, and its tasks are for others."""
        ended = self._ended.get()
        if isinstance(ended, Exception):
            raise ended
        call, future = ended
        if call not in call.actor.calls:
            return ()  # of an actor that is known to have died
        try:
            reply = _checked(future.result())
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.ObjectLostError):
            self._give_up(call.actor)
            return ()
        if not call.actor.neighbour:
            self._store(call.tasks, reply.vectors)
        with self._lock:
            del call.actor.calls[call]
            self._called -= len(call.tasks)
            for task, _, _ in call.tasks:
                self._tries.pop(task.task, None)
            self._hand_out()
        return reply.results

    def _store(self, tasks: list[Handed], vectors: Matrix) -> None:
        slots = [slot for task, slots, _ in tasks if isinstance(task, Train) for slot in (task.out, *slots[1:])]
        for slot, vector in zip(slots, vectors, strict=True):
            np.copyto(self._arena.get(slot), vector)

    def _hand_out(self) -> None:
        """Where an actor has work, a handful of tasks waits: the server is about to send more that can go with it."""
        while self._waiting and self._actors:
            actor = min(self._actors, key=lambda actor: len(actor.calls))
            share = (len(self._waiting) + self._called) // (CALLS * len(self._actors))
            if len(actor.calls) >= CALLS or (actor.calls and 2 * len(self._waiting) < share):
                return
            self._call(actor, self._next(max(1, share)))

    def _next(self, number: int) -> list[Handed]:
        """Tasks for one call. One that an actor may have died of is called alone: the next to die says of which."""
        tasks = [self._waiting.popleft()]
        while self._waiting and len(tasks) < number:
            if not self._tries.keys().isdisjoint((tasks[0].task.task, self._waiting[0].task.task)):
                break
            tasks.append(self._waiting.popleft())
        return tasks

    def _call(self, actor: _Actor, tasks: list[Handed]) -> None:
        call = _Call(actor, tasks)
        self._called += len(tasks)
        actor.calls[call] = reference = self._asked(actor, tasks)
        reference.future().add_done_callback(lambda future: self._ended.put((call, future)))

    def _asked(self, actor: _Actor, tasks: list[Handed]) -> Any:
        if actor.neighbour:
            return actor.handle.do_here.remote(tasks)
        for task, _, version in tasks:
            if version not in self._versions:
                self._versions[version] = self.ray.put(self._arena.get(task.base))
        # In a list it stays a reference: a worker that has the version does not fetch it again.
        there = {version: [self._versions[version]] for _, _, version in tasks}
        given = [
            Given(task, version, self._arena.get(slots[0]).copy() if slots else None) for task, slots, version in tasks
        ]
        return actor.handle.do_there.remote(given, there)

    def _give_up(self, actor: _Actor) -> None:
        """What an actor that has died was given is done by others, first of all; another one comes when it can."""
        with suppress(Exception):
            self.ray.kill(actor.handle)
        if actor.neighbour:
            actor.neighbour.end()
        with self._lock:
            calls = [call.tasks for call in actor.calls]
            actor.calls.clear()
            self._called -= sum(map(len, calls))
            self._actors.remove(actor)
            for task, _, _ in calls[0]:
                self._tries[task.task] = self._tries.get(task.task, 1) + 1
            if max(self._tries.values()) > _TRIES:
                raise RunError(_DEADLY)
            self._waiting.extendleft(handed for tasks in reversed(calls) for handed in reversed(tasks))
            self._hand_out()
        threading.Thread(target=self._hire, daemon=True).start()

    def _hire(self) -> None:
        """Another actor. Where a node is gone there may be no place for it, and those who are left go on meanwhile."""
        try:
            fresh = self._actor()
            self._briefed([fresh])
            with self._lock:
                self._actors.append(fresh)
                self._hand_out()
        except Exception as error:
            self.fail(error)

    def _size(self) -> int:
        """As many as were asked for, or as the cluster has room for."""
        chosen = self._settings
        if chosen["workers"]:
            return int(chosen["workers"])
        there = self.ray.cluster_resources()
        each = {"CPU": chosen["cpus"], "GPU": chosen["gpus"], "memory": chosen["memory"] * 1e6}
        return max(1, int(min((there.get(kind, 0) // need for kind, need in each.items() if need), default=1)))

    def _actor(self) -> _Actor:
        chosen = self._settings
        options = {"num_cpus": chosen["cpus"], "num_gpus": chosen["gpus"], "scheduling_strategy": "SPREAD"}
        if chosen["memory"]:
            options["memory"] = int(chosen["memory"] * 1e6)
        worker = self.ray.remote(Worker).options(max_restarts=0, max_concurrency=CALLS, **options)
        return _Actor(worker.remote(list(sys.path)))

    def _briefed(self, actors: list[_Actor]) -> Vector:
        """Tells actors what they work on. Where a node has no file of the data it is sent them, once a node."""
        met: list[Met] = self.ray.get([actor.handle.meet.remote(self._files, self._memory) for actor in actors])
        for actor, (_, process) in zip(actors, met, strict=True):
            with suppress(OSError):  # it can be left to itself, and then its vectors travel
                actor.neighbour = None if process is None else Neighbour(process)
        lacking = [one.lacks for one in met]
        nowhere = set(ARRAYS) - set(self._files)
        for name in nowhere.union(*lacking) - set(self._shipped):
            self._shipped[name] = self.ray.put(np.ascontiguousarray(self._arrays[name]))
        wanted = [{name: self._shipped[name] for name in nowhere.union(names)} for names in lacking]
        payload = self.ray.put(self._payload)
        begun = [
            actor.handle.begin.remote(payload, self._files, shipped)
            for actor, shipped in zip(actors, wanted, strict=True)
        ]
        replies = [_checked(reply) for reply in self.ray.get(begun)]
        initial: Vector = replies[0].vectors[0].copy()
        return initial


def _parted(workload: Any) -> tuple[bytes, dict[str, Where], dict[str, Any]]:
    """A workload without its arrays, where those are files, and the arrays."""
    import cloudpickle

    from afbs.data import file_of

    data = workload.dataset
    arrays = {name: getattr(data, name) for name in ARRAYS}
    places = {name: file_of(array) for name, array in arrays.items()}
    files = {name: Where(str(place), mark(place)) for name, place in places.items() if place is not None}
    empty: Any = dict.fromkeys(ARRAYS)
    return cloudpickle.dumps(replace(workload, dataset=replace(data, **empty))), files, arrays


def _checked(reply: Reply) -> Reply:
    if reply.problem == "refused":
        raise UserError(reply.text)
    if reply.problem:
        raise RunError(failure(reply.text))
    return reply


if __name__ == "__main__":
    main()
