"""A worker process: trains what it is told, with one thread, until its server is gone.

Started by `processes` as `python -m afbs.executors._worker SOCKET MEMORY LIFELINE`, three inherited file descriptors.
Numbers travel through the socket, vectors through the shared memory. Nothing is ever written to the lifeline: it closes
when the server ends, however it ends, and then so does the worker, in the middle of a job if need be.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING

from afbs.executors._arena import Arena
from afbs.executors._states import rows
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.clients.workload import Workload


def main() -> None:
    connection, memory, lifeline = Connection(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
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
        task, slots = connection.recv()
        waited = perf_counter() - waiting_since
        if task is not None:
            connection.send(trainer.do(task, rows(arena, task, slots))._replace(waited=waited))
        else:
            arena.get(slots[0])[:] = initial
            connection.send(None)
        waiting_since = perf_counter()


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)


if __name__ == "__main__":
    main()
