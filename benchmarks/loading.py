"""What reading a client's samples costs beside training on them: the share of a job that is spent on its data."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch

from afbs.clients.samples import Samples
from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.interfaces import Plain
from afbs.partitions.clustered import Clustered
from afbs.registry import find
from afbs.seeds import Key
from afbs.types import ModelChoice, Order, Training, UserError

SETTINGS = [("mnist5k", "lenet5", 100), ("mnist", "lenet5", 600), ("cifar10", "lenet5", 600), ("sst2", "fasttext", 60)]


def measure(jobs: int) -> dict[str, Any]:
    """Seconds spent on reading and on whole jobs, for each data set whose files are here."""
    torch.set_num_threads(1)
    found = {}
    for data, model, clients in SETTINGS:
        try:
            found[data] = _measure(data, model, clients, jobs)
        except UserError:
            found[data] = {"missing": True}
    return found


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"reading a client's data, {data}", "its files are not here" if "missing" in times else _share(times))
        for data, times in found.items()
    ]


def _share(times: dict[str, float]) -> str:
    return f"{times['reading'] / times['jobs']:.2%} of a job"


def _measure(data: str, model: str, clients: int, jobs: int) -> dict[str, float]:
    dataset = find("data", data)().load()
    split = Clustered(clients=clients).split(dataset.train_y, None, Key.root(1, "partition"))
    work = Workload(dataset, split.indices, ModelChoice(model), Training(), Plain(), "delta", 1)
    trainer, samples = Trainer(work), Samples(work)
    start = trainer.initial()
    out = np.empty_like(start)
    chosen = [int(client) for client in np.random.default_rng(0).choice(clients, jobs)]
    trainer.train(0, _order(chosen[0]), start, out)  # the first job also warms torch up
    reading = whole = 0.0
    for client in chosen:
        began = perf_counter()
        samples.client(client)
        read = perf_counter()
        trainer.train(0, _order(client), start, out)
        reading += read - began
        whole += perf_counter() - read
    return {"reading": reading, "jobs": whole}


def _order(client: int) -> Order:
    return Order(client, version=0, occurrence=0, sequence=0, time=0.0, rate=0.01)
