"""APPFL (`appfl` on PyPI): FedBuff in its virtual-time simulator, one process of one thread, tensors in memory.

Nothing is evaluated: its simulator's default. Its `optimize_memory`, on by default, collects garbage several times an
update, which takes longer than the training when 600 clients are in memory; `--memory shipped` keeps it on.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from torch.utils.data import TensorDataset

from benchmarks.peers import common, network

PATCHES = ["`optimize_memory` set on each client after it is made: its simulator does not hand the setting on"]
try:
    import piq  # noqa: F401
except ImportError:
    PATCHES.append("an empty module for piq, which needs torchvision: only its data-readiness reports use it")
    sys.modules["piq"] = ModuleType("piq")

from appfl.agent import SimClientAgent, SimServerAgent  # noqa: E402
from appfl.vsim import AsyncSimDriver, ClientProfile  # noqa: E402


def accuracy(target: np.ndarray, output: np.ndarray) -> float:
    """The metric that APPFL's trainer asks for; it is loaded from this file."""
    return float((output.argmax(axis=1) == target).mean())


class Fixed(ClientProfile):
    """A client that always takes as long."""

    def __init__(self, seconds: float):
        super().__init__()
        self._seconds = seconds

    def compute_time(self, compute_second_per_step: float, num_steps: int, **given: Any) -> float:
        return self._seconds

    def comm_time(self, model_bytes: float, **given: Any) -> float:
        return 0.0


def settings(clients: int, folder: str, collect: bool) -> dict[str, Any]:
    return {
        "model_configs": {"model_path": network.__file__, "model_name": "LeNet5"},
        "log_configs": {"logging_output_dirname": folder},
        "server_configs": {"optimize_memory": collect},
        "algorithm_configs": {
            "num_global_epochs": 10**6,
            "scheduler": "AsyncScheduler",
            "scheduler_kwargs": {"num_clients": clients, "optimize_memory": collect},
            "aggregator": "FedBuffAggregator",
            "aggregator_kwargs": {
                "K": common.BUFFER,
                "optimize_memory": collect,
                "staleness_fn": "polynomial",
                "staleness_fn_kwargs": {"a": 0.5},
            },
            "trainer": "VanillaTrainer",
            "trainer_kwargs": {
                "mode": "epoch",
                "optimize_memory": collect,
                "num_local_epochs": common.EPOCHS,
                "optim": "SGD",
                "optim_args": {"lr": common.LEARNING_RATE},
                "loss_fn": "CrossEntropyLoss",
                "metric_path": __file__,
                "metric_name": "accuracy",
                "train_batch_size": common.BATCH,
            },
        },
    }


def main() -> None:
    given = common.options(__doc__, 30, 10, memory=("fast", "shipped"))
    collect = given.memory == "shipped"
    work = common.Work.load(given.work)
    label = f"fedbuff, vsim, {'as shipped' if collect else 'without its garbage collections'}"
    meter = common.Meter("appfl", label, metadata.version("appfl"), PATCHES, given)

    class Counted(AsyncSimDriver):
        def _handle_train_complete(self, cid: str, completion_time: float) -> None:
            super()._handle_train_complete(cid, completion_time)
            meter.arrived()

    class Client(SimClientAgent):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.optimize_memory = collect

        def train(self, **given: Any) -> None:
            # The jobs that start before anything has arrived are no part of a round: they need not be trained as long.
            self.trainer.train_configs.num_local_epochs = common.EPOCHS if meter.begun else 1
            super().train(**given)
            meter.trained(len(self.train_dataset) * common.EPOCHS)

    x, y = work.tensors("train")
    with tempfile.TemporaryDirectory() as folder:
        chosen = settings(len(work.clients), folder, collect)
        server = SimServerAgent(chosen)
        clients = [
            Client(chosen, str(number), TensorDataset(x[own], y[own])) for number, own in enumerate(work.clients)
        ]
        slow = common.latencies(len(clients))
        profiles = {client.get_id(): Fixed(float(slow[number])) for number, client in enumerate(clients)}
        Counted(server, clients, profiles, common.IN_FLIGHT, logging.getLogger(Path(__file__).stem)).run()


if __name__ == "__main__":
    main()
