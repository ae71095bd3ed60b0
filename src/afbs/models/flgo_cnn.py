"""The stock convolutional network of FLGO, the framework the AFBS paper names; perhaps what it ran for images."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from afbs.nn.conv_pool_relu import ConvPoolReLU
from afbs.types import UserError


@final
class FlgoCnn(nn.Module):
    """Two convolutions of 64 maps, then dense layers of 384 and 192 units: FLGO's network for CIFAR."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise UserError(
                f"`model.name` = 'flgo_cnn' needs images of at least 16 × 16 pixels, got samples of {shape}."
            )
        channels, height, width = shape
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        self.features = nn.Sequential(
            ConvPoolReLU(channels, 64, 5),
            ConvPoolReLU(64, 64, 5),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(64 * rows * columns, 384),
            nn.ReLU(),
            nn.Linear(384, 192),
            nn.ReLU(),
            nn.Linear(192, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
