"""One cell in a process of its own: run anew or taken up again, telling its sweep how far it has come.

Started by `local` with its socket, an inherited file descriptor. When the socket closes, the sweep has ended, however
it ended: the cell then saves itself and ends, too.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from math import log
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from afbs.types import RunError, UserError

if TYPE_CHECKING:
    from afbs.record.recorder import Progress


class CellJob(NamedTuple):
    """What a cell's process is told. `objects` are the parts that only Python can say."""

    tables: dict[str, Any]
    modules: tuple[str, ...]
    objects: dict[str, Any]
    folder: str
    executor: dict[str, Any]
    cores: int


class News(NamedTuple):
    """What it tells: `share` of the cell that is done, processor seconds of this process and its workers so far.

    `value` is how good the model was last found, in words. `state` is "going" until it ends: "done", "stopped" (and
    saved), "refused" or "failed" with a `text`.
    """

    state: str
    share: float = 0.0
    cpu: float = 0.0
    value: str = ""
    text: str = ""


_TELL_SECONDS = 0.2
_DAY = 86_400


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    try:
        sys.path[:] = connection.recv()
        import cloudpickle

        job: CellJob = cloudpickle.loads(connection.recv_bytes())
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        told = carried_out(job, lambda told: _send(connection, told))
    except (EOFError, ConnectionError):
        return
    except KeyboardInterrupt:
        told = News("stopped")
    except Exception:
        told = News("failed", text=traceback.format_exc())
    _send(connection, told._replace(cpu=_cpu()))


def carried_out(job: CellJob, tell: Any) -> News:
    """Runs the cell, or goes on with it where its folder says it stands."""
    from afbs import experiment

    teller = _Teller(job, tell)
    try:
        folder = Path(job.folder)
        if (folder / "meta.json").exists():
            _wait_for_others(folder)
            experiment.resume(folder, progress=False, on_progress=teller, **job.objects, executor=job.executor)
        else:
            shutil.rmtree(folder, ignore_errors=True)  # killed before it had begun
            config = _load(job.tables, {**job.objects, "executor": job.executor}, job.modules)
            experiment.run(config, folder=folder, progress=False, on_progress=teller)
    except experiment.Interrupted:
        return News("stopped")
    except UserError as error:
        return News("refused", text=str(error))
    except RunError as error:
        return News("failed", text=str(error))
    return News("done", share=1.0)


class _Teller:
    """Turns a run's progress into what a sweep wants to know, now and then."""

    def __init__(self, job: CellJob, tell: Any):
        self._tables, self._cores, self._tell = job.tables, job.cores, tell
        self._began = perf_counter()
        self._before = process_time()
        self._told = 0.0

    def __call__(self, state: Progress) -> None:
        now = perf_counter()
        if now - self._told < _TELL_SECONDS:
            return
        self._told = now
        # What workers use is known when they have ended; until then they are taken to be busy.
        cpu = process_time() if self._cores == 1 else self._before + self._cores * (now - self._began)
        share = share_done(self._tables, state.time, state.version)
        self._tell(News("going", share, cpu, state.metric.brief(state.value)))


def share_done(tables: Mapping[str, Any], time: float, version: int) -> float:
    """How much of a run is behind it, by the nearest of its ends: its time, its versions, its learning rate."""
    run, training = tables["run"], tables["training"]
    shares: list[float] = [time / (run["virtual_days"] * _DAY)]
    if run["versions"]:
        shares.append(version / run["versions"])
    least = run["stop_when_lr_below"] / training["lr"]
    if 0 < least < 1 and training["lr_decay"] < 1 and training["lr_decay_unit"] != "none":
        decays = version if training["lr_decay_unit"] == "update" else time / training["lr_decay_seconds"]
        shares.append(decays * log(training["lr_decay"]) / log(least))
    return min(1.0, max(shares))


def _load(tables: dict[str, Any], objects: dict[str, Any], modules: tuple[str, ...]) -> Any:
    from afbs.config import load

    return load(tables, objects, modules)


def _wait_for_others(folder: Path) -> None:
    """A cell whose sweep was killed may still be saving itself."""
    with suppress(OSError), (folder / "events.jsonl").open("ab") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _cpu() -> float:
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + workers.ru_utime + workers.ru_stime


def _send(connection: Connection, told: News) -> None:
    with suppress(OSError):  # nobody is left to tell
        connection.send(tuple(told))


def _end_with(connection: Connection) -> None:
    """Nothing more is ever sent: what can be received is the end."""
    with suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGTERM)
