"""How long a server needs for one full buffer: from the arrival that fills it to the new model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.ca2fl import CA2FL
from afbs.algorithms.fedbuff import FedBuff
from afbs.engine.plan import follow, plan
from afbs.interfaces import Algorithm
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Decided, Training, Update

_SETTLED = 50
"""Versions after which buffers look as they will for good."""


def handled(parameters: int, clients: int, in_flight: int, flushes: int) -> dict[str, float]:
    """Median milliseconds of FedBuff, AFBS and CA2FL in turn, on the same buffers of ten, already in memory."""
    everybody, buffers = _buffers(clients, in_flight, flushes)
    rows = np.random.default_rng(0).normal(size=(10, parameters)).astype(np.float32)
    params = rows[0].copy()
    methods: dict[str, Algorithm[Any]] = {"fedbuff": FedBuff(), "afbs": AFBS(clustering=False)}
    with threadpool_limits(1):  # as the engine does
        found = _medians(methods, everybody, buffers, params, rows)
        # Its cache would drive everybody else's data out of the processor's.
        return found | _medians({"ca2fl": CA2FL()}, everybody, buffers, params, rows)


def _medians(
    methods: dict[str, Algorithm[Any]],
    clients: Sequence[ClientInfo],
    buffers: Sequence[Sequence[Update]],
    params: Any,
    rows: Any,
) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in methods}
    memories = {name: method.begin(params) for name, method in methods.items()}
    for turn, updates in enumerate(buffers):
        key = Key.root(turn, "select")
        for name, method in methods.items():
            state = method.init(clients)
            for update in updates[:-1]:
                state, _ = method.receive(state, update, key)
            began = perf_counter()
            _, step = method.receive(state, updates[-1], key)
            assert step is not None
            step = step._replace(weights=method.weigh(step.used))
            memories[name], _ = method.apply(memories[name], params, step, rows[: len(step.used)])
            times[name].append(1000 * (perf_counter() - began))
    return {name: float(np.median(seconds[len(seconds) // 10 :])) for name, seconds in times.items()}


def _buffers(number: int, in_flight: int, flushes: int) -> tuple[list[ClientInfo], list[list[Update]]]:
    """What a server finds in its buffer, from the plan of the paper's setting."""
    sizes = np.random.default_rng(1).lognormal(4, 1, number).astype(int) + 1
    clients = [ClientInfo(client, int(size)) for client, size in enumerate(sizes)]
    connection = VirtualTime(clients, Uniform(), Always(), seed=1)
    settings: Any = {"in_flight": in_flight, "horizon": 1e15, "seed": 1, "rate": Training().rate}
    steps = (
        event.step
        for event in follow(plan(FedBuff(), clients, connection.reachable, **settings), connection)
        if isinstance(event, Decided) and event.version > _SETTLED
    )
    return clients, [list(step.used) for step in islice(steps, flushes)]
