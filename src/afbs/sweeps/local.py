"""Cells as processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, final

import cloudpickle

from afbs.sweeps._cell import CellJob, News
from afbs.sweeps.cells import Cell, objects
from afbs.types import RunError

_LAST_BYTES = 4000
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def job(cell: Cell, folder: Path, cores: int) -> CellJob:
    """What the process of a cell must know. One core is this process itself: nobody need be told anything."""
    executor = dict(cell.config.tables["executor"])
    known = objects(cell.config)
    if executor["name"] == "processes":
        executor = {"name": "inline"} if cores == 1 else {"name": "processes", "workers": cores}
    elif "executor" in known:
        executor = known.pop("executor")
    return CellJob(dict(cell.config.tables), cell.config.modules, known, str(folder), executor, cores)


@final
class LocalRunner:
    """Starts cells, hears from them, stops them."""

    def __init__(self) -> None:
        self.cores = self.widest = cores()
        self._running: dict[str, CellProcess] = {}

    def start(self, cell: Cell, folder: Path, cores: int) -> None:
        self._running[cell.id] = CellProcess(job(cell, folder, cores))

    def news(self, seconds: float) -> list[tuple[str, News]]:
        """What cells have told, waiting up to `seconds` for the first of it. One that has ended is told as such."""
        by_connection = {process.connection: key for key, process in self._running.items()}
        ready = wait(list(by_connection), seconds)
        found = []
        for connection in ready:
            key = by_connection[connection]  # type: ignore[index]
            told = self._running[key].heard()
            if told.state != "going":
                self._running.pop(key).end()
            found.append((key, told))
        return found

    def stop(self, key: str) -> None:
        """Let it save itself; it will say that it has stopped."""
        self._running[key].signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends whatever is still going, at once."""
        for process in self._running.values():
            process.signal(signal.SIGKILL)
            process.end()
        self._running.clear()


@final
class CellProcess:
    """One cell's process, and what it says."""

    def __init__(self, work: CellJob):
        ours, theirs = socket.socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="afbs-")  # noqa: SIM115
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        threads = dict.fromkeys(_THREADS, "1")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from afbs.sweeps._cell import main; main()", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **threads, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                process_group=0,  # Ctrl-C is the sweep's to handle
            )
        except OSError as error:
            raise RunError(f"The process of a cell could not be started: {error.strerror}.") from error
        theirs.close()
        self.connection = Connection(ours.detach())
        with suppress(OSError):  # it has died already: that will be heard
            self.connection.send(sys.path)
            self.connection.send_bytes(cloudpickle.dumps(work))

    def heard(self) -> News:
        try:
            return News(*self.connection.recv())
        except (EOFError, ConnectionError):
            code = self._process.wait()
            return News("failed" if code != -signal.SIGTERM else "stopped", text=self._obituary(code))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """It has said its last word."""
        self.connection.close()
        self._process.wait()
        self._log.close()

    def _obituary(self, code: int) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LAST_BYTES))
        last = self._log.read().decode(errors="replace").strip()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            reason = "it was killed, perhaps because memory was short"
        return "\n".join(filter(None, [last, f"Its process ended: {reason}."]))


def cores() -> int:
    """As many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
