"""LeNet-5 (LeCun et al. 1998) with the usual two changes: ReLU for tanh and the maximum for the mean.

61,706 parameters for 28 × 28 × 1 and 10 classes, 62,006 for 32 × 32 × 3, 69,656 with 100 classes.

Two things make it fast on a CPU. The maximum is taken before the ReLU: both orders give the same numbers, and this one
has a quarter of them to clamp. And images are kept channels last, for which pooling and convolution have faster
kernels; these add in another order, so a step differs in the last bits from `memory_format = "contiguous"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, final

import torch
from annotated_types import Ge
from torch import Tensor, nn

from afbs.types import UserError

_FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
_STARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "xavier": nn.init.xavier_uniform_,
    "kaiming": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
}


@final
class LeNet5(nn.Module):
    """Two convolutions and three dense layers; the paper's network for images.

    `memory_format`: How torch lays images out; channels last is faster and rounds differently.

    `activation`: After each layer but the last. The network of 1998 had tanh, which has no native kernel.

    `pooling`: Of 2 × 2 outputs of a convolution. The network of 1998 had the mean, which has no native kernel.

    `margin`: Pixels of zeros around an image; by default two for images smaller than 32 × 32.

    `start`: How weights are drawn: as torch does it, or as Glorot and Bengio or He et al., with biases of zero.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        memory_format: Literal["channels_last", "contiguous"] = "channels_last",
        activation: Literal["relu", "tanh"] = "relu",
        pooling: Literal["max", "mean"] = "max",
        margin: Annotated[int, Ge(0)] | None = None,
        start: Literal["torch", "xavier", "kaiming"] = "torch",
    ) -> None:
        super().__init__()
        self._format = _FORMATS[memory_format]
        if len(shape) != 3 or min(shape[1:]) < 12:
            raise UserError(f"`model.name` = 'lenet5' needs images of at least 12 × 12 pixels, got samples of {shape}.")
        channels, height, width = shape
        if margin is None:  # the original saw digits on a margin of two pixels: 28 becomes 32
            margin = 2 if min(height, width) < 32 else 0
        rows, columns = (((side + 2 * margin - 4) // 2 - 4) // 2 for side in (height, width))
        if min(rows, columns) < 1:
            raise UserError(f"`model.margin` = {margin} leaves nothing of images of {height} × {width} pixels.")
        bend: type[nn.Module] = nn.ReLU if activation == "relu" else nn.Tanh
        self.margin = margin
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=margin),
            *_halved(bend, pooling),
            nn.Conv2d(6, 16, 5),
            *_halved(bend, pooling),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * rows * columns, 120),
            bend(),
            nn.Linear(120, 84),
            bend(),
            nn.Linear(84, classes),
        )
        if start != "torch":
            for parameter in self.parameters():
                _STARTS[start](parameter.data) if parameter.dim() > 1 else nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x.contiguous(memory_format=self._format)))
        return logits


def _halved(bend: type[nn.Module], pooling: str) -> tuple[nn.Module, nn.Module]:
    """The mean is of what was bent; of the maximum it makes no difference."""
    return (nn.MaxPool2d(2), bend()) if pooling == "max" else (bend(), nn.AvgPool2d(2))
