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
from contextlib import suppress
from dataclasses import replace
from math import inf
from multiprocessing.connection import Connection
from statistics import fmean
from typing import Any, NamedTuple, final

import numpy as np

from afbs.executors._arena import Arena
from afbs.executors._ray_worker import ARRAYS, Reply, Where, Worker, mark
from afbs.types import Evaluate, RunError, Train, UserError, Vector

_TRIES = 4
"""How often a task is begun before it is taken to be what its workers die of."""
_TURN_SECONDS = 0.02
_CALLS = 2
"""Calls an actor has at hand, so that it finds the next one while the last one's results are on their way."""
_CALL_SECONDS = 0.5
"""A call costs some milliseconds of processor time, so short tasks share one."""


class Handed(NamedTuple):
    """A task as the server hands it over: the slots of its client's old and new state, and the version it starts from.

    A slot is used again, a version's number never.
    """

    task: Train | Evaluate
    slots: tuple[int, ...]
    version: int


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
        crew = Crew(ray, settings, cloudpickle.loads(connection.recv_bytes()))
        crew.arena = Arena(len(crew.initial), memory)
        connection.send([crew.initial, crew.number])
        threading.Thread(target=_listen, args=(connection, crew), daemon=True).start()
        while True:
            for result in crew.results():
                connection.send(result)
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
            told = connection.recv()
            if isinstance(told, int):
                crew.forget(told)
            else:
                crew.give(Handed(*told))
    except (EOFError, OSError):
        with suppress(Exception):
            crew.ray.shutdown()
        os._exit(0)


@final
class _Actor:
    def __init__(self, handle: Any):
        self.handle = handle
        self.calls: deque[tuple[Any, list[Handed]]] = deque()


@final
class Crew:
    """The actors of a session, each with its calls in order, and the tasks that no call has been made for."""

    arena: Arena

    def __init__(self, ray: Any, settings: dict[str, Any], workload: Any):
        self.ray = ray
        self._settings = settings
        self._payload, self._files, self._arrays = _parted(workload)
        self._shipped: dict[str, Any] = {}
        self._versions: dict[int, Any] = {}
        self._tries: dict[int, int] = {}
        self._waiting: deque[Handed] = deque()
        self._task_seconds = inf
        self._change = threading.Condition()
        self._actors = [self._actor() for _ in range(self._size())]
        self.initial = self._briefed(self._actors)

    @property
    def number(self) -> int:
        return len(self._actors)

    def give(self, handed: Handed) -> None:
        with self._change:
            self._waiting.append(handed)
            self._hand_out()
            self._change.notify()

    def forget(self, version: int) -> None:
        with self._change:
            self._versions.pop(version, None)

    def results(self) -> list[Any]:
        """What has been finished; waits a moment for the first of it."""
        with self._change:
            while not any(actor.calls for actor in self._actors):
                self._change.wait()
            owner = {actor.calls[0][0]: actor for actor in self._actors if actor.calls}
        ready, _ = self.ray.wait(list(owner), num_returns=1, timeout=_TURN_SECONDS)
        if ready:
            ready, _ = self.ray.wait(list(owner), num_returns=len(owner), timeout=0)
        return [result for reference in ready for result in self._results(owner[reference])]

    def _hand_out(self) -> None:
        """The fewer tasks are left, the fewer go into a call, so that all actors are done at about the same time."""
        while self._waiting:
            actor = min(self._actors, key=lambda actor: len(actor.calls))
            if len(actor.calls) == _CALLS:
                return
            fair = len(self._waiting) // (_CALLS * len(self._actors))
            number = max(1, min(fair, int(_CALL_SECONDS / self._task_seconds)))
            self._call(actor, [self._waiting.popleft() for _ in range(number)])

    def _call(self, actor: _Actor, bundle: list[Handed]) -> None:
        for task, _, version in bundle:
            if version not in self._versions:
                self._versions[version] = self.ray.put(self.arena.get(task.base))
        # In a list it stays a reference: a worker that has the version does not fetch it again.
        there = {version: [self._versions[version]] for _, _, version in bundle}
        given = [(task, version, self.arena.get(slots[0]).copy() if slots else None) for task, slots, version in bundle]
        actor.calls.append((actor.handle.do.remote(given, there), bundle))

    def _results(self, actor: _Actor) -> list[Any]:
        """What an actor's first call gave; nothing if the actor has died, and its tasks were given to another."""
        reference, bundle = actor.calls[0]
        try:
            answers = [_checked(answer) for answer in self.ray.get(reference)]
        except self.ray.exceptions.RayActorError:
            self._replace(actor)
            return []
        for (task, slots, _), answer in zip(bundle, answers, strict=True):
            if isinstance(task, Train):
                for slot, vector in zip((task.out, *slots[1:]), answer.vectors, strict=True):
                    np.copyto(self.arena.get(slot), vector)
        with self._change:
            actor.calls.popleft()
            for task, _, _ in bundle:
                self._tries.pop(task.task, None)
            self._task_seconds = fmean(answer.result.seconds for answer in answers)
            self._hand_out()
        return [answer.result for answer in answers]

    def _replace(self, actor: _Actor) -> None:
        """Its tasks are called one by one from now on: the next to die says of which."""
        for task, _, _ in actor.calls[0][1]:
            self._tries[task.task] = self._tries.get(task.task, 1) + 1
        if max(self._tries.values()) > _TRIES:
            raise RunError(
                "Ray workers keep dying of one task, perhaps because memory was short. The run has been kept as far as "
                "its last checkpoint and can be resumed."
            )
        with suppress(Exception):
            self.ray.kill(actor.handle)
        fresh = self._actor()
        self._briefed([fresh])
        with self._change:
            self._actors[self._actors.index(actor)] = fresh
            for _, bundle in actor.calls:
                for handed in bundle:
                    self._call(fresh, [handed])

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
        return _Actor(self.ray.remote(Worker).options(max_restarts=0, **options).remote(list(sys.path)))

    def _briefed(self, actors: list[_Actor]) -> Vector:
        """Tells actors what they work on. Where a node has no file of the data it is sent them, once a node."""
        lacking = self.ray.get([actor.handle.lacks.remote(self._files) for actor in actors])
        nowhere = set(ARRAYS) - set(self._files)
        for name in nowhere.union(*lacking) - set(self._shipped):
            self._shipped[name] = self.ray.put(np.ascontiguousarray(self._arrays[name]))
        wanted = [{name: self._shipped[name] for name in nowhere.union(names)} for names in lacking]
        payload = self.ray.put(self._payload)
        begun = [
            actor.handle.begin.remote(payload, self._files, shipped)
            for actor, shipped in zip(actors, wanted, strict=True)
        ]
        vectors = [_checked(answer).vectors[0] for answer in self.ray.get(begun)]
        initial: Vector = np.array(vectors[0])
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


def _checked(answer: Reply) -> Reply:
    if answer.problem == "refused":
        raise UserError(answer.text)
    if answer.problem:
        raise RunError(f"A worker failed:\n{answer.text}")
    return answer


if __name__ == "__main__":
    main()
