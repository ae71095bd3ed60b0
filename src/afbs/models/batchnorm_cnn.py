"""A small network with batch normalisation: its running means and variances travel in the flat vector too."""

from __future__ import annotations

from typing import Annotated, final

from annotated_types import Ge
from torch import Tensor, nn

from afbs.types import UserError


@final
class BatchNormCnn(nn.Module):
    """Two convolutions with batch normalisation, a mean over the image, one linear layer.

    `width`: How many maps the first convolution has; the second has twice as many.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: Annotated[int, Ge(1)] = 16) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 4:
            raise UserError(
                f"`model.name` = 'batchnorm_cnn' needs images of at least 4 × 4 pixels, got samples of {shape}."
            )
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits
