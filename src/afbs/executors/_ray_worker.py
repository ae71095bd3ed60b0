"""What a Ray actor of the executor `ray` does: trains what it is told, with one thread.

It keeps the last few versions of the model, so that each crosses the network once a worker and not once a job; and it
maps the data where its node has the very files, or else takes them from its node's object store.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from afbs.types import Evaluate, Train, UserError, Vector

ARRAYS = ("train_x", "train_y", "test_x", "test_y")
_VERSIONS_BYTES = 1 << 26
_BLOCKS, _BLOCK = 64, 1 << 16


class Where(NamedTuple):
    """An array of the data: the file that holds it where the server is, and what shows that another is the same."""

    path: str
    mark: str


class Reply(NamedTuple):
    """How a task ended. `problem` is "refused" or "failed" with a text; else there are a result and its vectors."""

    result: Any = None
    vectors: tuple[Vector, ...] = ()
    problem: str = ""
    text: str = ""


@final
class Worker:
    """One actor. Ray calls one method at a time, in the order in which they were sent."""

    def __init__(self, path: list[str]):
        sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
        self._versions: OrderedDict[int, Vector] = OrderedDict()
        self._since = perf_counter()

    def lacks(self, files: dict[str, Where]) -> list[str]:
        """The arrays that this node has no file of."""
        return [name for name, where in files.items() if mark(Path(where.path)) != where.mark]

    def begin(self, payload: bytes, files: dict[str, Where], shipped: dict[str, Any]) -> Reply:
        """Brief it; `shipped` are arrays in the object store. Gives the model before training."""
        try:
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
            self._since = perf_counter()
            return Reply(vectors=(self._trainer.initial(),))
        except UserError as error:
            return Reply(problem="refused", text=str(error))
        except Exception:
            return Reply(problem="failed", text=traceback.format_exc())

    def do(self, tasks: list[tuple[Train | Evaluate, int, Vector | None]], there: dict[int, list[Any]]) -> list[Reply]:
        """Each task has its version and its client's state.

        `there` holds references to versions, which are followed where this worker has them no more.
        """
        return [self._one(task, version, there[version], state) for task, version, state in tasks]

    def _one(self, task: Train | Evaluate, version: int, there: list[Any], state: Vector | None) -> Reply:
        waited = perf_counter() - self._since
        try:
            base = self._base(version, there)
            if isinstance(task, Evaluate):
                found = self._trainer.evaluate(task.task, base, task.part, task.local)
                return Reply(found._replace(waited=waited))
            rows = [np.empty_like(base)] if state is None else [np.empty_like(base), state.copy(), np.empty_like(base)]
            shipped = self._trainer.train(task.task, task.order, base, *rows)
            return Reply(shipped._replace(waited=waited), (rows[0], *rows[2:]))
        except UserError as error:
            return Reply(problem="refused", text=str(error))
        except Exception:
            return Reply(problem="failed", text=traceback.format_exc())
        finally:
            self._since = perf_counter()

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
