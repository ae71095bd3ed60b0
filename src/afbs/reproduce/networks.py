"""LeNet-5 as others read the paper: named by path in `settings`, for its search. Trained by torch."""

from __future__ import annotations

from typing import Annotated, Literal, final

import torch
from annotated_types import Ge
from torch import Tensor, nn

_CIFAR10 = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.262)


@final
class OpenLeNet5(nn.Module):
    """Two convolutions and three dense layers for CIFAR-10, with what may differ as settings.

    `inputs` "unit" undoes the normalisation: pixels are then 0 to 1, or with "balanced" −1 to 1. `start` is how weights
    are drawn.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        activation: Literal["relu", "tanh"] = "relu",
        pooling: Literal["max", "mean"] = "max",
        margin: Annotated[int, Ge(0)] = 0,
        inputs: Literal["normalised", "unit", "balanced"] = "normalised",
        start: Literal["torch", "xavier", "kaiming"] = "torch",
    ) -> None:
        super().__init__()
        channels, height, width = shape
        bend: type[nn.Module] = nn.ReLU if activation == "relu" else nn.Tanh
        pool: type[nn.Module] = nn.MaxPool2d if pooling == "max" else nn.AvgPool2d
        rows, columns = (((side + 2 * margin - 4) // 2 - 4) // 2 for side in (height, width))
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=margin),
            bend(),
            pool(2),
            nn.Conv2d(6, 16, 5),
            bend(),
            pool(2),
            nn.Flatten(),
            nn.Linear(16 * rows * columns, 120),
            bend(),
            nn.Linear(120, 84),
            bend(),
            nn.Linear(84, classes),
        )
        self._shift, self._scale = (torch.tensor(row).view(1, -1, 1, 1) for row in _CIFAR10)
        self._inputs = inputs
        if start != "torch":
            self.apply(_xavier if start == "xavier" else _kaiming)

    def forward(self, x: Tensor) -> Tensor:
        if self._inputs != "normalised":
            x = x * self._scale + self._shift
        if self._inputs == "balanced":
            x = 2 * x - 1
        scores: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return scores


def _xavier(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        _no_bias(layer)


def _kaiming(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        _no_bias(layer)


def _no_bias(layer: nn.Conv2d | nn.Linear) -> None:
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
