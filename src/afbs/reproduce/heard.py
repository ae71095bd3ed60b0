"""Who took part in a run: how much of the model's way each fifth of the clients went, and who was never heard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.clients.batches import batches
from afbs.record.recorded import Recorded
from afbs.types import Training

_FIFTHS = 5


def heard(record: Recorded, training: Training, server_rate: float = 1.0) -> dict[str, Any]:
    """Shares by fifths of the clients, those with the least data or the shortest latency first.

    A step moves the model by `weight_a_step` of a mean update. Clients with more data take more steps of their own
    before they send one: weight times those, summed up, times the server's rate, is `local_steps_a_step`, how far a
    step goes.

    `never` are clients of whom no step used anything, `refused` those among them who had sent something. `kept` is the
    share of the updates that came in time for a step and counted, `weight` the share of all weight.
    """
    clients, updates = record.clients, record.updates
    place = {int(client): row for row, client in enumerate(clients.id)}
    rows = np.array([place[int(client)] for client in updates.client], np.int64)
    number = len(place)
    came = np.bincount(rows, minlength=number).astype(float)
    used = np.bincount(rows[updates.used], minlength=number).astype(float)
    weight: NDArray[np.float64] = np.zeros(number)
    np.add.at(weight, rows[updates.used], np.abs(updates.weight[updates.used]))
    steps = record.steps
    local = np.array([training.epochs * len(batches(int(examples), training)) for examples in clients.examples])
    way = server_rate * float(weight @ local)
    return {
        "clients": number,
        "never": int((used == 0).sum()),
        "refused": int(((used == 0) & (came > 0)).sum()),
        "used_a_step": _rounded(steps.used.mean()) if len(steps.used) else None,
        "weight_a_step": _rounded(steps.scale.mean()) if len(steps.scale) else None,
        "local_steps_a_step": _rounded(way / len(steps.used)) if len(steps.used) else None,
        "staleness": _rounded(updates.staleness.mean()) if len(rows) else None,
        "by_examples": _fifths(clients.examples, came, used, weight),
        "by_latency": _fifths(clients.latency, came, used, weight),
    }


def _fifths(
    by: NDArray[np.float64], came: NDArray[np.float64], used: NDArray[np.float64], weight: NDArray[np.float64]
) -> dict[str, list[float | None]] | None:
    if not np.isfinite(by).all() or len(by) < _FIFTHS:
        return None
    groups = np.array_split(np.argsort(by, kind="stable"), _FIFTHS)
    whole = float(weight.sum())
    return {
        "never": [int((used[group] == 0).sum()) for group in groups],
        "kept": [_rounded(used[group].sum() / came[group].sum()) if came[group].sum() else None for group in groups],
        "weight": [_rounded(weight[group].sum() / whole) if whole else None for group in groups],
    }


def _rounded(value: float) -> float:
    return round(float(value), 4)
