"""Do models tell whose data are alike? Four clients, two with one half of the labels and two with the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from afbs import registry
from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.interfaces import Plain
from afbs.native.choice import settled
from afbs.seeds import Key
from afbs.types import ModelChoice, Order, Training

_SAMPLES = 500
_LR = 0.01
ROUNDS = 20


def similarities(dataset: str, seed: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Cosines of models, and of what a round changed in them, round by round.

    Clients 0 and 1 have the same labels, 2 and 3 the others. In a synchronous round all begin with the same model, the
    mean of the last round's. Asynchronously client 1 stays with what it trained in the first round, while the others go
    on: alike are then 0 and 1, unlike 0 and 2.
    """
    data = registry.find("data", dataset)().load()
    rng = Key.root(seed, "cosine").generator()
    half = data.classes // 2
    pools = [np.flatnonzero(data.train_y < half), np.flatnonzero(data.train_y >= half)]
    drawn = [rng.permutation(pool)[: 2 * _SAMPLES] for pool in pools]
    indices = [part for pool in drawn for part in (np.sort(pool[:_SAMPLES]), np.sort(pool[_SAMPLES:]))]
    model = settled(ModelChoice("lenet5", {}, "auto"), "cpu")
    trainer = Trainer(Workload(data, indices, model, Training(lr=_LR), Plain(), "end", seed))
    series: dict[str, list[float]] = {}
    initial = trainer.initial()  # it gives what it holds, which later is what it trained last
    for time, active in (("synchronous", (0, 1, 2, 3)), ("asynchronous", (0, 2, 3))):
        start = initial
        slow = _trained(trainer, 1, 0, start)
        late = slow, slow - start
        for turn in range(rounds):
            ends = {client: _trained(trainer, client, turn, start) for client in active}
            changes = {client: end - start for client, end in ends.items()}
            series.setdefault(f"{time}, alike", []).append(_cosine(ends[0], ends.get(1, late[0])))
            series.setdefault(f"{time}, unlike", []).append(_cosine(ends[0], ends[2]))
            series.setdefault(f"{time}, alike, change", []).append(_cosine(changes[0], changes.get(1, late[1])))
            series.setdefault(f"{time}, unlike, change", []).append(_cosine(changes[0], changes[2]))
            start = np.mean(list(ends.values()), axis=0, dtype=np.float32)
    return series


def _cosine(first: Any, second: Any) -> float:
    return round(float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second))), 6)


def _trained(trainer: Trainer, client: int, turn: int, start: Any) -> Any:
    out = np.empty_like(start)
    trainer.train(0, Order(client, turn, turn, 4 * turn + client, 0.0, _LR), start, out)
    return out
