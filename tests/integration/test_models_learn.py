"""Plain centralised training on the real data: if this does not learn, the data or the network are wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.data.cifar10 import Cifar10
from afbs.data.digits import Digits
from afbs.data.sst2 import Sst2
from afbs.interfaces import Plain
from afbs.models.batchnorm_cnn import BatchNormCnn
from afbs.models.fasttext import FastText
from afbs.models.lenet5 import LeNet5
from afbs.models.mlp import MLP
from afbs.types import Dataset, ModelChoice, Training

ROOT = Path(os.environ.get("AFBS_DATA", ""))


def needs(folder: str) -> pytest.MarkDecorator:
    there = bool(os.environ.get("AFBS_DATA")) and (ROOT / folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"there is no {folder} in $AFBS_DATA")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFBS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def one_client(data: Dataset) -> Samples:
    """Everything as one client's data, by the path that clients use."""
    everything = [np.arange(len(data.train_y))]
    return Samples(Workload(data, everything, ModelChoice("lenet5"), Training(), Plain(), "delta", 0))


def accuracies(
    data: Dataset,
    model: nn.Module,
    make: Callable[[nn.Module], torch.optim.Optimizer],
    epochs: int,
    batch: int = 64,
) -> Iterator[float]:
    """The test accuracy after each epoch."""
    samples = one_client(data)
    x, y = samples.client(0)
    optimiser = make(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        model.train()
        for chosen in torch.randperm(len(y)).split(batch):
            optimiser.zero_grad()
            cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimiser.step()
        schedule.step()
        model.eval()
        right = 0
        with torch.inference_mode():
            for part in range(-(-len(data.test_y) // 2000)):
                test_x, test_y = samples.test(part)
                right += int((model(test_x).argmax(1) == test_y).sum())
        yield right / len(data.test_y)


def sgd(lr: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda model: torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.005)


@pytest.mark.parametrize("build", [MLP, BatchNormCnn])
def test_small_networks_learn_the_embedded_digits(build: type[nn.Module]) -> None:
    torch.manual_seed(0)
    data = Digits().load()
    model = build(shape=data.train_x.shape[1:], classes=10)
    assert max(accuracies(data, model, sgd(0.05), epochs=8, batch=32)) > 0.93


@pytest.mark.long
@needs("cifar-10-batches-bin")
def test_lenet5_passes_60_percent_on_cifar10_within_15_epochs() -> None:
    torch.manual_seed(0)
    data = Cifar10().load()
    found = []
    for accuracy in accuracies(data, LeNet5(shape=(3, 32, 32), classes=10), sgd(0.01), epochs=15):
        found.append(accuracy)
        if accuracy > 0.6:
            break
    assert found[-1] > 0.6, found


@pytest.mark.long
@needs("SST-2")
def test_fasttext_passes_78_percent_on_sst2() -> None:
    torch.manual_seed(0)
    data = Sst2().load()
    model = FastText(shape=data.train_x.shape[1:], classes=2, tokens=data.tokens, sparse=False)  # Adam is dense
    found = list(accuracies(data, model, adam, epochs=3, batch=256))
    assert found[-1] > 0.78, found
