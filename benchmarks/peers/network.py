"""The network that every peer trains, alone in its file: APPFL loads it from a path, without a module around it."""

from __future__ import annotations

from torch import Tensor, nn


class LeNet5(nn.Module):
    """As in afbs, in the order that is usually written: ReLU, then the maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores
