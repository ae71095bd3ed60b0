"""A network of your own: any class or function that builds a `torch.nn.Module`.

    python examples/own_model.py

Where it takes them, its constructor is given `shape` (of one sample), `classes` and `tokens` (for text); whatever else
it takes is a setting. It must give one score for each class. From a configuration the same class is
`[model] name = "own_model:SmallCNN"`.

`afbs.nn.ConvPoolReLU` stands for a convolution, `MaxPool2d(2)` and ReLU. It has the parameters of the convolution, and
on a CPU it is two to five times as fast as the three, most where channels are few.
"""

from __future__ import annotations

from torch import Tensor, nn

import afbs
from afbs.nn import ConvPoolReLU


class SmallCNN(nn.Module):
    """One convolution and one dense layer."""

    def __init__(self, shape: tuple[int, ...], classes: int, channels: int = 8):
        super().__init__()
        self.layers = nn.Sequential(
            ConvPoolReLU(shape[0], channels, 3, padding=1),
            nn.Flatten(),
            nn.Linear(channels * (shape[1] // 2) * (shape[2] // 2), classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


if __name__ == "__main__":
    result = afbs.run(
        {
            "name": "small-cnn",
            "data": {"name": "digits"},
            "partition": {"clients": 30, "clusters": 2},
            "training": {"lr": 0.1},
            "run": {"virtual_days": 0.5, "in_flight": 12},
            "evaluation": {"points": 10},
        },
        model={"name": SmallCNN, "channels": 16},
    )
    print(f"{result.best:.1%} with {len(result.params):,} parameters, in {result.folder}")
