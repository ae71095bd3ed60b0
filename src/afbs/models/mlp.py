"""A perceptron of two layers: the smallest network that is not linear."""

from __future__ import annotations

import math
from typing import Annotated, final

from annotated_types import Ge
from torch import Tensor, nn


@final
class MLP(nn.Module):
    """One hidden layer, for anything that can be laid flat.

    `hidden`: How many units it has.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, hidden: Annotated[int, Ge(1)] = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits
