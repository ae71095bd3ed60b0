"""LeNet-5's gradient three ways, for tests: natively, by torch, and by torch in double precision as the reference."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from afbs.clients.flatten import FlatModel
from afbs.clients.gradient import Gradient, Torch
from afbs.clients.lenet5 import NativeLenet5
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.interfaces import Plain
from afbs.models.lenet5 import LeNet5
from afbs.tasks.classification import Classification
from afbs.types import Dataset, ModelChoice, Training

COLOUR, GREY = (3, 32, 32), (1, 28, 28)


def batch(shape: tuple[int, ...], classes: int, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pixels are multiples of 1/4. With the weights of `network`, single precision adds all products of a convolution
    exactly: it finds the same maxima as double precision, and there are many ties."""
    rng = torch.Generator().manual_seed(seed)
    pixels = torch.randn(n, *shape, generator=rng).mul(4).round().clamp(-16, 16) / 4
    return pixels, torch.randint(0, classes, (n,), generator=rng)


def network(shape: tuple[int, ...], classes: int, seed: int = 0, **settings: Any) -> FlatModel:
    """The weights of its convolutions are multiples of 1/64."""
    torch.manual_seed(seed)
    lenet5 = LeNet5(shape=shape, classes=classes, **settings)
    model = FlatModel(lenet5)
    for parameter in lenet5.features.parameters():
        parameter.data.copy_(parameter.data.mul(64).round() / 64)
    return model


def scored(gradient: Gradient, part: int = 0) -> list[tuple[Tensor, Tensor]]:
    """The scores and labels of one part of the test set, batch by batch."""
    return [(ask(x), y) for ask, x, y in gradient.test(part)]


def source(x: Tensor, y: Tensor, classes: int) -> Samples:
    """One client that has them all, and a test set of the same."""
    images, labels = x.numpy(), y.numpy()
    data = Dataset(images, labels, images, labels, classes)
    return Samples(Workload(data, [np.arange(len(y))], ModelChoice("lenet5"), Training(), Plain(), "delta", 0))


def native(model: FlatModel, shape: tuple[int, ...], classes: int, x: Tensor, y: Tensor) -> Tensor:
    return through(NativeLenet5(model, source(x, y, classes), shape, classes), model)


def by_torch(model: FlatModel, x: Tensor, y: Tensor) -> Tensor:
    return through(Torch(model, source(x, y, 2), Classification(), "float32", "cpu"), model)


def reference(model: FlatModel, x: Tensor, y: Tensor) -> Tensor:
    """In double precision, with torch's plain layout."""
    exact = copy.deepcopy(model.module).double()
    assert isinstance(exact, LeNet5)
    exact._format = torch.contiguous_format
    exact.zero_grad(set_to_none=True)
    cross_entropy(exact(x.double()), y).backward()
    return torch.cat([parameter.grad.flatten() for parameter in exact.parameters() if parameter.grad is not None])


def distance(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def through(gradient: Gradient, model: FlatModel) -> Tensor:
    """Of the whole client, in one batch."""
    n = gradient.begin(0)
    (whole,) = gradient.batches(np.arange(n), [n])
    model.gradient.fill_(7.0)
    gradient.of(whole)
    return model.gradient.clone()
