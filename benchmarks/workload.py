"""CIFAR-10-shaped work: random images, the paper's 600 clients of very unequal size, LeNet-5, 5 epochs, batches of 64.

What is learnt does not matter for speed, so no data set is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afbs.config import Config, load
from afbs.data import Arrays

DAYS = 0.3
"""Virtual time of one round: some 1,100 arrivals."""
FULL_DAYS = 20.0
DEFAULT_POINTS = 150


def arrays(train: int = 50_000, test: int = 10_000) -> Arrays:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (train + test, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, train + test)
    return Arrays(images[:train], labels[:train], images[train:], labels[train:])


def config(algorithm: str, data: Any, days: float = DAYS, workers: int = 0) -> Config:
    """One algorithm on this work. Evaluations are as dense as on the default grid of a full run of 20 days."""
    settings = {"clustering": False} if algorithm == "afbs" else {}
    tables = {
        "name": algorithm,
        "algorithm": {"name": algorithm, **settings},
        "partition": {"name": "clustered", "clients": 600, "clusters": 1},
        "evaluation": {"points": max(1, round(DEFAULT_POINTS * days / FULL_DAYS)), "spacing": "linear"},
        "run": {"virtual_days": days, "in_flight": 120},
        "executor": {"name": "processes", "workers": workers},
    }
    return load({**tables, "data": data})
