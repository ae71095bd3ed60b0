"""The faster ways of computing a step agree with the plain one: to the bit, or within 1e-5 of a step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.core.local import Proximal
from afbs.interfaces import LocalRule, Plain
from afbs.models.lenet5 import LeNet5
from afbs.types import Dataset, ModelChoice, Order, Training, Vector


class TextbookLeNet5(nn.Module):
    """ReLU first, then the maximum, as it is written everywhere."""

    def __init__(self, fast: LeNet5):
        super().__init__()
        self.conv1, self.conv2 = fast.features[0], fast.features[3]
        self.head = fast.head

    def forward(self, x: Tensor) -> Tensor:
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        result: Tensor = self.head(x.flatten(1))
        return result


def test_pooling_before_the_relu_gives_the_same_bits_as_after_it() -> None:
    torch.manual_seed(0)
    fast = LeNet5(shape=(3, 32, 32), classes=10, memory_format="contiguous")
    textbook = TextbookLeNet5(fast)
    x, y = torch.randn(17, 3, 32, 32), torch.randint(0, 10, (17,))
    gradients = []
    for model in (fast, textbook):
        model.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        gradients.append([loss.detach(), *(p.grad.clone() for p in fast.parameters() if p.grad is not None)])
    assert len(gradients[0]) == 11
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*gradients, strict=True))


def images() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (64, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, 64)
    return Dataset(x, y, x[:4], y[:4], 10, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def texts() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 500, (64, 12), dtype=np.int32), rng.integers(0, 2, 64)
    x[:, 9:] = 0
    return Dataset(x, y, x[:4], y[:4], 2, tokens=500)


def one_step(dataset: Dataset, model: ModelChoice, rule: LocalRule) -> Vector:
    """The change that a single step of a client makes. It starts from small weights: the change is then not lost in
    the last bits of large ones."""
    training = Training(epochs=1, batch_size=64)
    trainer = Trainer(Workload(dataset, [np.arange(64)], model, training, rule, "delta", seed=1))
    base = 0.05 * trainer.initial()
    out = np.empty_like(base)
    trainer.train(0, Order(client=0, version=0, occurrence=0, sequence=0, time=0.0, rate=0.1), base, out)
    return out


@pytest.mark.parametrize("rule", [Plain(), Proximal(0.5)], ids=["plain", "proximal"])
@pytest.mark.parametrize(
    ("dataset", "fast", "plain"),
    [
        (images(), ModelChoice("lenet5"), ModelChoice("lenet5", {"memory_format": "contiguous"})),
        (texts(), ModelChoice("fasttext"), ModelChoice("fasttext", {"sparse": False})),
    ],
    ids=["channels last", "sparse embedding"],
)
def test_a_fast_step_is_within_1e_5_of_the_plain_one(
    dataset: Dataset, fast: ModelChoice, plain: ModelChoice, rule: LocalRule
) -> None:
    ours, theirs = one_step(dataset, fast, rule), one_step(dataset, plain, rule)
    assert np.abs(theirs).max() > 1e-4
    assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


def test_words_that_no_sample_has_do_not_move() -> None:
    change = one_step(texts(), ModelChoice("fasttext"), Plain())
    rows = change[: 500 * 64].reshape(500, 64)
    used = np.unique(texts().train_x)
    assert not rows[np.setdiff1d(np.arange(500), used)].any()
    assert not rows[0].any()
    assert rows[used[used > 0]].any(axis=1).all()
