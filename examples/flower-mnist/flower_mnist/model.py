"""The network. Its constructor is given the shape of a sample and the number of classes."""

from torch import nn


class Net(nn.Module):
    """Two convolutions and two dense layers."""

    def __init__(self, shape, classes):
        super().__init__()
        side = shape[1] // 4
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 8, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * side * side, 64),
            nn.ReLU(),
            nn.Linear(64, classes),
        )

    def forward(self, x):
        return self.layers(x)
