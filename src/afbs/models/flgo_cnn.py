"""The stock convolutional networks of FLGO, the framework the AFBS paper names; probably what it ran for images."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from afbs.nn.conv_pool_relu import ConvPoolReLU
from afbs.types import UserError


@final
class FlgoCnn(nn.Module):
    """Two convolutions and dense layers: FLGO's network for CIFAR or, for images of one channel, for MNIST.

    The former has twice 64 maps and layers of 384 and 192 units; the latter 32 and 64 maps with a margin of two, and
    one layer of 512 units.
    """

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise UserError(
                f"`model.name` = 'flgo_cnn' needs images of at least 16 × 16 pixels, got samples of {shape}."
            )
        channels, *sides = shape
        maps, margin, hidden = (32, 2, (512,)) if channels == 1 else (64, 0, (384, 192))
        rows, columns = (((side + 2 * margin - 4) // 2 + 2 * margin - 4) // 2 for side in sides)
        self.features = nn.Sequential(
            ConvPoolReLU(channels, maps, 5, padding=margin),
            ConvPoolReLU(maps, 64, 5, padding=margin),
            nn.Flatten(),
        )
        widths = (64 * rows * columns, *hidden)
        dense = [layer for pair in zip(widths, hidden, strict=False) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.head = nn.Sequential(*dense, nn.Linear(widths[-1], classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
