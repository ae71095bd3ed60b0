"""What a Ray actor of the executor `ray` does: trains what it is told, in one thread.

Ray's own threads take in the next call and put away what the last one gave while that thread trains. It keeps the last
few versions of the model, so that each crosses the network once a worker and not once a job; and it maps the data where
its node has the very files, or else takes them from its node's object store. On the server's own machine it has the
server's memory, and vectors do not travel at all.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np

from afbs.executors._arena import Arena
from afbs.executors._ray_memory import Offer, taken
from afbs.executors._ray_parcels import ARRAYS, Given, Handed, Met, Reply, Where
from afbs.executors._states import rows
from afbs.types import Evaluate, Evaluated, Shipped, Train, UserError, Vector

_VERSIONS_BYTES = 1 << 26
_BLOCKS, _BLOCK = 64, 1 << 16


@final
class Worker:
    """One actor. What Ray's threads are called for is done by one thread, in its order: threads have their own number
    of threads for a sum, and that decides its last bits."""

    def __init__(self, path: list[str]):
        sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
        self._thread = ThreadPoolExecutor(1)
        self._versions: OrderedDict[int, Vector] = OrderedDict()
        self._since = perf_counter()

    def meet(self, files: dict[str, Where], memory: Offer) -> Met:
        import ray

        lacks = [name for name, where in files.items() if mark(Path(where.path)) != where.mark]
        self._memory = taken(memory, ray.get_runtime_context().get_node_id())
        return Met(lacks, None if self._memory is None else os.getpid())

    def begin(self, payload: bytes, files: dict[str, Where], shipped: dict[str, Any]) -> Reply:
        """Brief it; `shipped` are arrays in the object store. Gives the model before training."""
        return self._thread.submit(_answered, self._begin, payload, files, shipped).result()

    def do_here(self, tasks: list[Handed]) -> Reply:
        """With all vectors in the server's memory."""
        return self._thread.submit(_answered, self._do_here, tasks).result()

    def do_there(self, tasks: list[Given], there: dict[int, list[Any]]) -> Reply:
        """`there` holds references to versions, which are followed where this worker has them no more."""
        return self._thread.submit(_answered, self._do_there, tasks, there).result()

    def _begin(self, payload: bytes, files: dict[str, Where], shipped: dict[str, Any]) -> Reply:
        import cloudpickle
        import ray
        import torch

        torch.set_num_threads(1)
        work = cloudpickle.loads(payload)
        arrays: dict[str, Any] = {
            name: ray.get(shipped[name]) if name in shipped else np.load(files[name].path, mmap_mode="r")
            for name in ARRAYS
        }
        from afbs.clients.trainer import Trainer

        self._trainer = Trainer(replace(work, dataset=replace(work.dataset, **arrays)))
        self._size = len(initial := self._trainer.initial())
        self._arena = None if self._memory is None else Arena(self._size, self._memory)
        self._since = perf_counter()
        return Reply(vectors=initial[np.newaxis])

    def _do_here(self, tasks: list[Handed]) -> Reply:
        assert self._arena is not None
        return Reply(tuple(self._done(task, rows(self._arena, task, slots)) for task, slots, _ in tasks))

    def _do_there(self, tasks: list[Given], there: dict[int, list[Any]]) -> Reply:
        """All vectors in one array, which Ray copies as it is: for each training what is shipped, then what its client
        remembers from now on."""
        each = [isinstance(task, Train) * (1 if state is None else 2) for task, _, state in tasks]
        vectors = np.empty((sum(each), self._size), np.float32)
        free = iter(vectors)
        results = []
        for (task, version, state), number in zip(tasks, each, strict=True):
            base, *new = self._base(version, there[version]), *islice(free, number)
            old = () if state is None else (state.copy(),)
            results.append(self._done(task, [base, *new[:1], *old, *new[1:]]))
        return Reply(tuple(results), vectors)

    def _done(self, task: Train | Evaluate, vectors: list[Vector]) -> Shipped | Evaluated:
        waited = perf_counter() - self._since
        found = self._trainer.do(task, vectors)
        self._since = perf_counter()
        return found._replace(waited=waited)

    def _base(self, version: int, there: list[Any]) -> Vector:
        if version not in self._versions:
            import ray

            # Torch takes no read-only array, and the object store gives no other.
            self._versions[version] = np.array(ray.get(there[0]))
            most = max(2, _VERSIONS_BYTES // self._versions[version].nbytes)
            while len(self._versions) > most:
                self._versions.popitem(last=False)
        self._versions.move_to_end(version)
        return self._versions[version]


def _answered(work: Callable[..., Reply], *given: Any) -> Reply:
    try:
        return work(*given)
    except UserError as error:
        return Reply(problem="refused", text=str(error))
    except Exception:
        return Reply(problem="failed", text=traceback.format_exc())


def mark(path: Path) -> str:
    """What tells a file from others: its size and a digest of blocks all over it; nothing if there is none."""
    try:
        size = path.stat().st_size
        digest = hashlib.blake2b(str(size).encode(), digest_size=16)
        with path.open("rb") as file:
            for block in range(_BLOCKS):
                file.seek(block * max(0, size - _BLOCK) // max(1, _BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    except OSError:
        return ""
    return digest.hexdigest()
