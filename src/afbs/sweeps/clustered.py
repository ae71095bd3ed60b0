"""Cells as actors on a Ray cluster (`sweep.runner = "ray"`).

Their folders must be on a file system that all nodes share. A cell whose node is lost is begun again on another, from
its last checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import cloudpickle

from afbs.sweeps._cell import News
from afbs.sweeps.cells import Cell
from afbs.sweeps.local import CellProcess, job
from afbs.types import RunError, UserError

_TRIES = 3


@final
class Host:
    """Runs one cell where Ray put it."""

    def __init__(self, path: list[str], payload: bytes, sign: str):
        sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
        self._process = CellProcess(cloudpickle.loads(payload)) if Path(sign).exists() else None

    def hear(self) -> News:
        """What the cell says next; waits for it."""
        if self._process is None:
            return News("refused", text="The sweep's folder is not on this node: it must be on a shared file system.")
        told = self._process.heard()
        if told.state != "going":
            self._process.end()
        return told

    def stop(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGTERM)


@final
class RayRunner:
    """Starts cells on the nodes of a cluster, hears from them, stops them."""

    def __init__(self, address: str = "") -> None:
        ray = self._ray = _ray()
        self._ours = not ray.is_initialized()
        if self._ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            where = address or os.environ.get("RAY_ADDRESS", "")
            here: dict[str, Any] = {"address": where}
            if not where:
                here = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            try:
                ray.init(**here, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                raise RunError(f"`sweep.address`: no Ray cluster at {where!r}: {error}") from error
        sizes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        self.cores = max(1, int(sum(sizes)))
        self.widest = max(1, int(max(sizes, default=1)))
        self._begun: dict[str, tuple[Cell, Path, int, int]] = {}
        self._hosts: dict[str, Any] = {}
        self._next: dict[Any, str] = {}

    def start(self, cell: Cell, folder: Path, cores: int, tries: int = 1) -> None:
        actor = self._ray.remote(Host).options(num_cpus=cores, max_concurrency=2, scheduling_strategy="SPREAD")
        payload = cloudpickle.dumps(job(cell, folder.resolve(), cores))
        host = actor.remote(list(sys.path), payload, str(folder.resolve().parents[1] / "sweep.lock"))
        self._begun[cell.id] = (cell, folder, cores, tries)
        self._hosts[cell.id] = host
        self._next[host.hear.remote()] = cell.id

    def news(self, seconds: float) -> list[tuple[str, News]]:
        ready, _ = self._ray.wait(list(self._next), num_returns=1, timeout=seconds)
        found = []
        for reference in ready:
            key = self._next.pop(reference)
            try:
                told = News(*self._ray.get(reference))
            except self._ray.exceptions.RayActorError:
                cell, folder, cores, tries = self._begun[key]
                if tries < _TRIES:
                    self.start(cell, folder, cores, tries + 1)
                    continue
                told = News("failed", text="Its node was lost, again and again. The same command goes on with it.")
            if told.state == "going":
                self._next[self._hosts[key].hear.remote()] = key
            else:
                self._end(key)
            found.append((key, told))
        return found

    def stop(self, key: str) -> None:
        """Let it save itself; it will say that it has stopped."""
        self._hosts[key].stop.remote()

    def close(self) -> None:
        """Ends whatever is still going."""
        for key in list(self._hosts):
            self._end(key)
        if self._ours:
            self._ours = False
            self._ray.shutdown()

    def _end(self, key: str) -> None:
        with suppress(Exception):
            self._ray.kill(self._hosts.pop(key))


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise UserError("`sweep.runner` = 'ray' needs Ray: pip install 'afbs[ray]'.") from None
    return ray
