"""What the server does: one step, one checkpoint, one report."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from afbs import experiment
from afbs.algorithms.afbs import AFBS
from afbs.algorithms.ca2fl import CA2FL
from afbs.algorithms.fedbuff import FedBuff
from afbs.engine.plan import follow, plan
from afbs.executors._arena import Arena, unnamed_memory
from afbs.interfaces import Algorithm
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.record.checkpoint import Checkpoint, save_checkpoint
from afbs.report import write
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Decided, Training, Update

_BUFFER = 10
_SIZES = {"LeNet-5 (62,006)": 62_006, "a million": 1_000_000}


def measure(repeats: int) -> dict[str, Any]:
    with threadpool_limits(1):  # as the engine does
        flushes = {name: _flushes(parameters, repeats, "afbs") for name, parameters in _SIZES.items()}
        cached = {name: _flushes(parameters, repeats // 4, "ca2fl") for name, parameters in _SIZES.items()}
    return {
        "flush": flushes,
        "flush_cached": cached,
        "checkpoint_seconds": _checkpoint(),
        "report_seconds": _report(),
    }


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, times in found["flush"].items():
        yield f"flush of 10, {name}: afbs (K=1) ÷ fedbuff", f"{times['afbs'] / times['fedbuff']:.2f}"
        yield f"flush of 10, {name}: fedbuff ÷ reading its bytes once", f"{times['fedbuff'] / times['read']:.2f}"
    for name, times in found["flush_cached"].items():
        yield f"flush of 10, {name}: ca2fl ÷ fedbuff", f"{times['ca2fl'] / times['fedbuff']:.2f}"
    yield "checkpoint of LeNet-5 with 30 versions", f"{found['checkpoint_seconds'] * 1000:.0f} ms"
    yield "report of a short run", f"{found['report_seconds']:.1f} s"


def _flushes(parameters: int, repeats: int, other: str) -> dict[str, float]:
    """Median seconds from the arrival that fills a buffer to the new model, with the buffer already in memory.

    FedBuff and one other in turn: CA2FL's cache would drive everybody else's data out of the CPU's.
    """
    _, rows = Arena(parameters, unnamed_memory()).block(_BUFFER)
    rows[:] = np.random.default_rng(0).normal(size=rows.shape)
    params = rows[0].copy()
    clients, buffers = _buffers(repeats)
    others: dict[str, Algorithm[Any]] = {"afbs": AFBS(clustering=False), "ca2fl": CA2FL()}
    candidates = {"fedbuff": FedBuff(), other: others[other]}
    times: dict[str, list[float]] = {name: [] for name in (*candidates, "read")}
    memories = {name: algorithm.begin(params) for name, algorithm in candidates.items()}
    for turn, updates in enumerate(buffers):
        key = Key.root(turn, "select")
        for name, algorithm in candidates.items():
            state = algorithm.init(clients)
            for update in updates[:-1]:
                state, _ = algorithm.receive(state, update, key)
            began = time.perf_counter()
            _, step = algorithm.receive(state, updates[-1], key)
            assert step is not None
            step = step._replace(weights=algorithm.weigh(step.used))
            memories[name], _ = algorithm.apply(memories[name], params, step, rows[: len(step.used)])
            times[name].append(time.perf_counter() - began)
        times["read"].append(_seconds(lambda: float(rows.sum(dtype=np.float32))))
    return {name: float(np.median(seconds[len(seconds) // 10 :])) for name, seconds in times.items()}


def _buffers(number: int) -> tuple[list[ClientInfo], list[list[Update]]]:
    """What a server really finds in its buffer: from the plan of the paper's setting, once it has settled."""
    sizes = np.random.default_rng(1).lognormal(4, 1, 600).astype(int) + 1
    clients = [ClientInfo(client, int(size)) for client, size in enumerate(sizes)]
    connection = VirtualTime(clients, Uniform(), Always(), seed=1)
    settings: Any = {"in_flight": 120, "horizon": 1e15, "seed": 1, "rate": Training().rate}
    steps = (
        event.step
        for event in follow(plan(FedBuff(_BUFFER), clients, connection.reachable, **settings), connection)
        if isinstance(event, Decided) and event.version > 100
    )
    return clients, [list(step.used) for step in islice(steps, number)]


def _checkpoint() -> float:
    vectors = {version: np.zeros(62_006, np.float32) for version in range(30)}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        return _seconds(lambda: save_checkpoint(Path(folder), Checkpoint(30, vectors[0], {}, {}, vectors, {})))


def _report() -> float:
    with tempfile.TemporaryDirectory() as folder:
        tables = {"data": {"name": "digits"}, "model": {"name": "mlp"}, "partition": {"clients": 60}}
        settings = {"run": {"virtual_days": 1.0, "in_flight": 12}, "executor": {"name": "inline"}}
        result = experiment.run({**tables, **settings}, runs=folder)
        return _seconds(lambda: write([result.folder], Path(folder) / "report.html"))


def _seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
