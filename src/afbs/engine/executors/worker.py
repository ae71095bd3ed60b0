"""A worker process: trains what it is told, with one thread, until its server is gone.

Started by `processes` as `python -m afbs.engine.executors.worker SOCKET MEMORY`, two inherited file descriptors.
Numbers travel through the socket, vectors through the shared memory.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING

from afbs.engine.executors.arena import Arena
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.clients.workload import Workload


def main() -> None:
    connection, memory = Connection(int(sys.argv[1])), int(sys.argv[2])
    with suppress(EOFError, ConnectionError):  # the server is gone, and nobody is left to tell
        try:
            serve(connection, memory)
        except (EOFError, ConnectionError):
            raise
        except UserError as error:
            connection.send(("refused", str(error)))
        except Exception:
            connection.send(("failed", traceback.format_exc()))


def serve(connection: Connection, memory: int) -> None:
    import cloudpickle
    import torch

    torch.set_num_threads(1)
    sys.path[:] = connection.recv()
    workload: Workload = cloudpickle.loads(connection.recv_bytes())
    from afbs.clients.trainer import Trainer

    trainer = Trainer(workload)
    initial = trainer.initial()
    connection.send(len(initial))
    arena = Arena(len(initial), memory)
    waiting_since = perf_counter()
    while True:
        kind, task, *rest = connection.recv()
        waited = perf_counter() - waiting_since
        if kind == "train":
            job, base, out, state = rest
            old, new = (None, None) if state is None else (arena.rows(slot, 1)[0] for slot in state)
            result = trainer.train(task, job, arena.rows(base, 1)[0], arena.rows(out, 1)[0], old, new)
            connection.send(result._replace(waited=waited))
        elif kind == "evaluate":
            base, part = rest
            connection.send(trainer.evaluate(task, arena.rows(base, 1)[0], part)._replace(waited=waited))
        else:
            (out,) = rest
            arena.rows(out, 1)[0] = initial
            connection.send(task)
        waiting_since = perf_counter()


if __name__ == "__main__":
    main()
