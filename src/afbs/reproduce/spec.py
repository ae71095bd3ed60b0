"""The paper's setting, and one run in it: a data set, a number of clusters, a method, a seed, and what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afbs.config import load
from afbs.reproduce.published import target
from afbs.sweeps import Cell

CLUSTERS = {"mnist": (1, 3, 5), "cifar10": (1, 3, 5), "cifar100": (1, 3, 5), "sst2": (1, 2)}
"""The columns of Tables 2 and 4."""
METHODS = ("afbs", "fedbuff", "fedavg", "fedasync", "fedfa", "ca2fl", "feddyn")
NEWER = ("fadas", "fedstaleweight", "ace")
"""Not the paper's, but of the fair comparison."""
TITLES = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "sst2": "SST-2",
    "afbs": "AFBS",
    "fedbuff": "FedBuff",
    "fedavg": "FedAvg",
    "fedasync": "FedAsync",
    "fedfa": "FedFa",
    "ca2fl": "CA2FL",
    "feddyn": "FedDyn",
    "fadas": "FADAS",
    "fedstaleweight": "FedStaleWeight",
    "ace": "ACE",
}
COLUMNS = (
    ("cifar10", 1),
    ("mnist", 1),
    ("sst2", 1),
    ("cifar10", 3),
    ("cifar10", 5),
    ("mnist", 3),
    ("mnist", 5),
    ("sst2", 2),
    ("cifar100", 1),
    ("cifar100", 3),
    ("cifar100", 5),
)
"""The order in which they are run: what says most comes first."""
_SYNCHRONOUS = ("fedavg", "feddyn")
_PATHS = {"aged": "afbs.reproduce.aged:Aged"}
"""Algorithms that exist for one figure only."""
_LR = 0.01
_FROZEN = 0.01
"""Once clients train with less than this share of the first rate, a run may end: so little of its way is left."""
TO_THE_END = ("run.stop_when_lr_below", 0.0)
GLOROT = ("model.start", "xavier")
"""With torch's own weights, which are smaller, LeNet-5 stands still for hundreds of steps before it learns anything."""
Changes = tuple[tuple[str, Any], ...]
_NETWORK, _AUGMENTED = ("model.name", "flgo_cnn"), ("task.name", "afbs.reproduce.variants:Augmented")
STOCK: dict[str, Changes] = {
    "mnist": (_NETWORK,),
    "cifar10": (_NETWORK, _AUGMENTED),
    "cifar100": (_NETWORK, _AUGMENTED),
}
"""What FLGO, the framework that the paper names, trains on images if nobody says otherwise, and how."""
_LEAST_SHARE = 0.5
_MANY_CLUSTERS = 10
"""With as many clusters as classes no draw leaves each of them half of its fair share; a tenth must do."""


@dataclass(frozen=True)
class Spec:
    """One run. `days` 0 is as long as the paper's; `changes` are single settings, such as `algorithm.weights`."""

    dataset: str
    clusters: int
    method: str
    seed: int = 1
    days: float = 0.0
    changes: Changes = ()

    @property
    def virtual_days(self) -> float:
        return self.days or paper_days(self.dataset)

    @property
    def arm(self) -> str:
        """What runs share that differ by their seed alone."""
        words = [self.dataset, f"k{self.clusters}", self.method, *(_words(*change) for change in self.changes)]
        return "-".join([*words, f"{self.virtual_days:g}d"])

    @property
    def name(self) -> str:
        return f"{self.arm}-seed{self.seed}"

    @cached_property
    def cell(self) -> Cell:
        """The same for whoever asks for it: the same name, the same settings, the same folder."""
        changed = {path: value for path, value in self.changes if path != "name"}
        first = {path: value for path, value in changed.items() if path.endswith(".name")}
        config = load(self.tables(), {**first, **changed, "name": self.name})
        return Cell(self.name, config, self.arm)

    def tables(self) -> Mapping[str, Any]:
        """The paper's setting as it is read here; docs/reproduction.md says where the paper leaves a choice."""
        text = self.dataset == "sst2"
        share = 0.1 if self.clusters >= _MANY_CLUSTERS else _LEAST_SHARE
        whole = self.virtual_days >= paper_days(self.dataset)
        moments: dict[str, Any] = {"points": 300 if whole else 150, "spacing": "log", "every": 0}
        if self.method in _SYNCHRONOUS:
            moments = {"points": 1, "spacing": "log", "every": 1}
        return {
            "data": {"name": self.dataset},
            "partition": {
                "name": "clustered",
                "clients": 60 if text else 600,
                "clusters": self.clusters,
                "alpha": 0.1,
                "min_cluster_share": share,
                "volume_sigma": 1.0,
            },
            "model": {"name": "fasttext" if text else "lenet5"},
            "training": {
                "epochs": 5,
                "batch_size": 64,
                "lr": _LR,
                "lr_decay": 0.999,
                "lr_decay_unit": "update",
            },
            "latency": {"name": "uniform", "low": 0, "high": 6000, "per": "client"},
            "algorithm": {"name": _PATHS.get(self.method, self.method)},
            "clusters": {"name": "projection", "number": self.clusters, "noise": 0.001},
            "run": {
                "seed": self.seed,
                "virtual_days": self.virtual_days,
                "in_flight": 12 if text else 120,
                "stop_when_lr_below": _LR * _FROZEN,
            },
            "evaluation": {**moments, "target": target(self.dataset)},
        }


def paper_days(dataset: str) -> float:
    return 10.0 if dataset == "sst2" else 20.0


def _words(path: str, value: Any) -> str:
    key = path.rpartition(".")[2]
    if key == "name":
        return str(value).rpartition(":")[2].lower()
    told = f"{value:g}" if isinstance(value, float) else str(value).lower()
    return f"{key}-{told}".replace("_", "-")
