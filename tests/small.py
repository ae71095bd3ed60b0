"""A workload small enough to be worked out by hand: softmax regression on a few points, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from afbs.clients.workload import Workload
from afbs.interfaces import LocalRule, Plain
from afbs.types import Dataset, ModelChoice, Training

CLASSES = 3
FEATURES = 2


class Softmax(nn.Module):
    """One dense layer: weights (3 × 2) row by row, then 3 biases."""

    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        self.dense = nn.Linear(shape[0], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x)  # type: ignore[no-any-return]


def dataset(samples: int = 40, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples + 11, FEATURES)).astype(np.float32)
    y = rng.integers(CLASSES, size=samples + 11)
    return Dataset(x[:samples], y[:samples], x[samples:], y[samples:], CLASSES)


def workload(rule: LocalRule | None = None, ships: Any = "delta", **training: Any) -> Workload:
    """Four clients of ten samples."""
    chosen = {"epochs": 1, "batch_size": 10, "lr": 0.1, **training}
    parts = list(np.arange(40).reshape(4, 10))
    return Workload(dataset(), parts, ModelChoice(Softmax), Training(**chosen), rule or Plain(), ships, seed=1)


def with_data(work: Workload, **changes: Any) -> Workload:
    return replace(work, dataset=replace(work.dataset, **changes))


def gradient(params: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
    """Of the mean cross-entropy, by the textbook: (softmax - one-hot) times the inputs."""
    weight, bias = params[:6].reshape(CLASSES, FEATURES).astype(np.float64), params[6:].astype(np.float64)
    scores = x @ weight.T + bias
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = odds / odds.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1.0
    error /= len(y)
    return np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])
