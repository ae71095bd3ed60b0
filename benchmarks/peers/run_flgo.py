"""FLGO (`flgo` on PyPI): FedBuff or FedAvg, one process of one thread, as its documentation runs them.

`--data shipped` is its image pipeline and its defaults: a PIL image a sample, converted and normalised when it is read,
and a tenth of every client's data held out, on which each flush is evaluated besides the test set. `--data memory`
gives it tensors that are converted already, and holds nothing out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import flgo
import flgo.algorithm.fedavg
import flgo.algorithm.fedbuff
import numpy as np
import torch
from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe, GeneralCalculator
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from benchmarks.peers import common, network

PATCHES = [
    "a task folder written by hand: its partitioners cannot be given lists of indices",
    "`__getitems__` for its TaskDataset, which newer releases of torch ask of a Subset with its own `__getitem__`",
]
FromDatasetPipe.TaskDataset.__getitems__ = lambda self, indices: [self[index] for index in indices]
PATCHES_OF_IMAGES: list[str] = []
try:
    from torchvision.transforms.functional import normalize, to_tensor
except ImportError:
    PATCHES_OF_IMAGES = [
        "our own to_tensor and normalize, the same operations as torchvision's, which is not installed"
    ]

    def to_tensor(image: Image.Image) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(image, np.uint8, copy=True))
        return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)

    def normalize(image: torch.Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
        shift, scale = (torch.as_tensor(moment, dtype=image.dtype).view(-1, 1, 1) for moment in (mean, std))
        return image.clone().sub_(shift).div_(scale)


class Images(Dataset[tuple[Tensor, int]]):
    """As torchvision's CIFAR10 with FLGO's transforms."""

    def __init__(self, work: common.Work, part: str):
        self._images = getattr(work, f"{part}_x").transpose(0, 2, 3, 1).copy()
        self._labels = getattr(work, f"{part}_y").tolist()
        self._moments = (work.shift, work.scale)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return normalize(to_tensor(Image.fromarray(self._images[index])), *self._moments), self._labels[index]


def benchmark(name: str, train: Dataset[Any], test: Dataset[Any]) -> None:
    """What FLGO imports by a benchmark's name."""
    core: Any = ModuleType(f"{name}.core")
    core.TaskPipe = lambda path: FromDatasetPipe(path, train_data=train, test_data=test)
    core.TaskCalculator = GeneralCalculator
    sys.modules[name], sys.modules[f"{name}.core"] = ModuleType(name), core


def task(folder: Path, name: str, clients: list[np.ndarray]) -> str:
    (folder / "record").mkdir()
    (folder / "log").mkdir()
    names = [f"Client{number}" for number in range(len(clients))]
    lists = {own: {"data": chosen.tolist()} for own, chosen in zip(names, clients, strict=True)}
    (folder / "info").write_text(json.dumps({"benchmark": name, "scene": "horizontal", "num_clients": len(clients)}))
    (folder / "data.json").write_text(json.dumps({"client_names": names, **lists}))
    return str(folder)


def counted(base: Any, meter: common.Meter) -> Any:
    """The algorithm, with its arrivals and its training counted."""

    class Server(base.Server):
        if hasattr(base.Server, "package_handler"):  # asynchronous

            def package_handler(self, received_packages: dict[str, Any]) -> bool:
                updated = super().package_handler(received_packages)
                if received_packages["__cid"]:
                    meter.arrived(len(received_packages["__cid"]))
                return updated

        else:

            def iterate(self) -> bool:
                updated = super().iterate()
                meter.arrived(len(self.selected_clients))
                return updated

    class Client(base.Client):
        def train(self, model: Any) -> None:
            # The jobs that start before anything has arrived are no part of a round: they need not be trained.
            if meter.begun or base is flgo.algorithm.fedavg:
                super().train(model)
                meter.trained(self.datavol * common.EPOCHS)

    return type(base.__name__, (), {"Server": Server, "Client": Client})


def main() -> None:
    choices = {"algorithm": ("fedbuff", "fedavg"), "data": ("shipped", "memory")}
    given = common.options(__doc__, 30, 10, **choices)
    work = common.Work.load(given.work)
    shipped = given.data == "shipped"
    train: Dataset[Any]
    test: Dataset[Any]
    if shipped:
        train, test = Images(work, "train"), Images(work, "test")
    else:
        train, test = TensorDataset(*work.tensors("train")), TensorDataset(*work.tensors("test"))
    label = f"{given.algorithm}, {'as shipped' if shipped else 'tensors in memory'}"
    patches = PATCHES + (PATCHES_OF_IMAGES if shipped else [])
    meter = common.Meter("flgo", label, metadata.version("flgo"), patches, given)
    benchmark("afbs_peer", train, test)
    clients = len(work.clients)
    settings = {
        "num_rounds": 10**6,
        "proportion": common.IN_FLIGHT / clients,
        "num_epochs": common.EPOCHS,
        "batch_size": common.BATCH,
        "learning_rate": common.LEARNING_RATE,
        "responsiveness": f"UNI-0-{common.LONGEST}",
        "no_log_console": True,
        "no_tqdm": True,
    }
    if given.algorithm == "fedbuff":
        settings["algo_para"] = [common.BUFFER / clients, 1.0]
    if not shipped:
        settings["train_holdout"] = 0.0
    base = getattr(flgo.algorithm, given.algorithm)
    sys.argv = sys.argv[:1]  # FLGO reads the command line too
    with tempfile.TemporaryDirectory() as folder:
        path = task(Path(folder), "afbs_peer", work.clients)
        model = flgo.convert_model(network.LeNet5, "lenet5")
        flgo.init(path, counted(base, meter), settings, model=model).run()


if __name__ == "__main__":
    main()
