"""The yardstick: a plain PyTorch loop over the same clients, as anyone would write it first.

`python -m benchmarks.plain SAMPLES.npy LABELS.npy JOBS.npz` trains the given jobs in one thread and prints how long it
took. Images are floats in memory before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d, relu


class LeNet5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = max_pool2d(relu(self.conv1(x)), 2)
        x = max_pool2d(relu(self.conv2(x)), 2).flatten(1)
        result: Tensor = self.fc3(relu(self.fc2(relu(self.fc1(x)))))
        return result


def train(model: nn.Module, start: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        order = torch.randperm(len(y))
        for first in range(0, len(y), 64):
            batch = order[first : first + 64]
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return {name: start[name] - tensor for name, tensor in model.state_dict().items()}


def main() -> None:
    torch.set_num_threads(1)
    samples, labels, jobs = sys.argv[1:]
    images, targets = np.load(samples, mmap_mode="r"), np.load(labels)
    with np.load(jobs) as file:
        clients = [file[name] for name in file.files]
    ready = [
        (torch.from_numpy(images[chosen]).float().div_(255).sub_(0.5).div_(0.25), torch.from_numpy(targets[chosen]))
        for chosen in clients
    ]
    model = LeNet5()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for x, y in ready[:3]:
        train(model, start, x, y)
    began = time.perf_counter()
    for x, y in ready:
        train(model, start, x, y)
    print(json.dumps({"jobs": len(ready), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
