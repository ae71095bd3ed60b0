"""Data of your own: arrays, a torch Dataset, or a class that loads them.

    python examples/own_data.py

Arrays are `(x, y)`, of which every fifth sample of each class is kept for testing, or
`(train_x, train_y, test_x, test_y)`. A torch Dataset of (sample, label) pairs is read once, in order. A `Source` is for
data that should be loaded by name, also from a configuration: `[data] name = "own_data:Rings"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from torch.utils.data import TensorDataset

import afbs
from afbs.interfaces import Source
from afbs.types import Dataset


def rings(samples: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points in the plane; the class is the ring they lie on."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=samples)
    angle, radius = rng.uniform(0, 2 * np.pi, samples), y + rng.normal(1.0, 0.15, samples)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32), y


@dataclass(frozen=True)
class Rings(Source):
    """Three rings in the plane."""

    samples: Annotated[int, Ge(30)] = 1500

    def load(self) -> Dataset:
        return Dataset(*rings(self.samples, seed=1), *rings(300, seed=2), classes=3)


SETTINGS = {
    "model": {"name": "mlp"},
    "partition": {"name": "dirichlet", "clients": 30, "alpha": 1.0},
    "training": {"lr": 0.5},
    "run": {"virtual_days": 0.5, "in_flight": 12},
    "evaluation": {"points": 10},
}

if __name__ == "__main__":
    x, y = rings(1500, seed=1)
    as_torch = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    for name, data in {"arrays": (x, y), "torch": as_torch, "source": Rings()}.items():
        result = afbs.run(SETTINGS, name=f"rings-{name}", data=data)
        print(f"{name}: {result.best:.1%} in {result.folder}")
