"""What a server on real clients spends an arrival, beyond carrying its message: nodes here answer at once."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from afbs.apps.server import fleet_of
from afbs.config import load
from afbs.experiment.serving import serve
from afbs.transports.flower import messages

_NODES, _BUFFER = 8, 4


def measure(versions: int) -> dict[str, Any]:
    return {upload: _spent(upload, versions) for upload in ("eager", "on_demand")}


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for upload, spent in found.items():
        each = f"{spent['processor_ms']:.2f} ms of processor time, {spent['wall_ms']:.2f} ms in all"
        yield f"server on real clients, LeNet-5, {upload}: an arrival", each


def _spent(upload: str, versions: int) -> dict[str, float]:
    tables = {
        "data": {"name": "mnist5k"},
        "algorithm": {"name": "afbs", "buffer_size": _BUFFER},
        "clusters": {"name": "none"},
        "run": {"versions": versions, "in_flight": _NODES},
        "evaluation": {"points": 1},
        "executor": {"name": "inline"},
        "transport": {"name": "flower", "clients": _NODES, "upload": upload, "poll_seconds": 1e-6},
    }
    config = load(tables)
    dataset = config.data.load()
    grid = _Grid()
    began = [0.0, 0.0]

    def reach(brief: Any) -> Any:
        grid.task, grid.size = brief.task, brief.size
        began[:] = time.process_time(), time.perf_counter()
        return fleet_of(grid, config, brief, lambda text: None)

    with tempfile.TemporaryDirectory() as place:
        arrived = serve(config, reach, Path(place) / "run", dataset=dataset).record.arrivals
    processor = time.process_time() - began[0] - grid.processor
    wall = time.perf_counter() - began[1] - grid.wall
    return {"processor_ms": 1000 * processor / arrived, "wall_ms": 1000 * wall / arrived, "arrivals": arrived}


class _Grid(Grid):
    """Carries messages, and keeps account of what that alone takes."""

    task: str
    size: int

    def __init__(self) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.processor = self.wall = 0.0
        self._replies: list[Message] = []
        self._numbers = count(1)
        self._vector = np.random.default_rng(0)

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(range(1, _NODES + 1))

    def push_messages(self, messages: Iterable[Message]) -> list[Any]:
        numbers: list[Any] = self._counted(lambda: [self._push(message) for message in messages])
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found, self._replies = self._replies, []
        return found

    def _push(self, message: Message) -> str:
        name = str(next(self._numbers))
        message.metadata.__dict__["_message_id"] = name
        self._replies.append(Message(self._answer(message), reply_to=message))
        return name

    def _answer(self, message: Message) -> RecordDict:
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        if kind == messages.HELLO:
            return messages.here(messages.Here(node, f"{node:064d}", 10 * node, self.task, []))
        vector = self._vector.normal(size=self.size).astype(np.float32) * 1e-3
        if kind == messages.FETCH:
            return messages.done(messages.Done(messages.fetch_of(message.content)[1], vector.nbytes, 0, 0, 0.0), vector)
        job = messages.job_of(message.content)
        done = messages.Done(job.order.sequence, vector.nbytes, 1, 1, 0.0)
        return messages.done(done, vector if job.upload else None)

    def _counted(self, action: Callable[[], Any]) -> Any:
        processor, wall = time.process_time(), time.perf_counter()
        result = action()
        self.processor += time.process_time() - processor
        self.wall += time.perf_counter() - wall
        return result
