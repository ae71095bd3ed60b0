"""Steps that leave out rows of an embedding which nothing moves end in the same bits as steps that move everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from afbs.clients.flatten import FlatModel
from afbs.clients.pull import Pull
from afbs.core.local import Dynamic, Proximal
from afbs.interfaces import LocalRule

ROWS, WIDTH, STEPS, RATE = 200, 16, 12, 0.01


class TowardsZero(LocalRule):
    """Pulls at rows, too, that no sample uses."""

    def gradient(self, params: Any, start: Any, state: Any) -> Any:
        return 0.1 * params + 0.2 * (params - start)


class Words(nn.Module):
    """A table between two dense parameters, one of which is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.randn(3))
        self.table = nn.EmbeddingBag(ROWS, WIDTH, mode="mean", padding_idx=0, sparse=True)
        self.head = nn.Linear(WIDTH, 2)
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.table(x)) * self.before.sum()
        return scores


def batches() -> list[Tensor]:
    """Of the 200 words most are never used; new ones come up until the end, some of them twice in a batch."""
    rng = torch.Generator().manual_seed(3)
    return [torch.randint(0, 8 + 3 * step, (5, 6), generator=rng) for step in range(STEPS)]


def dense(model: FlatModel, rule: LocalRule, start: Tensor, state: Tensor) -> None:
    """As it is written: the whole gradient plus the whole term."""
    for batch in batches():
        model.backward(model.module(batch).square().sum())
        term: Any = rule.gradient(model.trainable, start, state)
        slope = model.whole_gradient() + term
        model.trainable.add_(slope, alpha=-RATE)


def by_rows(model: FlatModel, rule: LocalRule, start: Tensor, state: Tensor) -> None:
    step = model.sgd(Pull(rule, start, state))
    for batch in batches():
        model.backward(model.module(batch).square().sum())
        step(RATE)


@pytest.mark.parametrize("rule", [Proximal(0.5), Dynamic(0.4), TowardsZero()], ids=lambda rule: type(rule).__name__)
def test_a_job_that_leaves_rows_out_ends_in_the_same_bits(rule: LocalRule) -> None:
    torch.manual_seed(1)
    model = FlatModel(Words())
    start = model.trainable.clone()
    state = torch.zeros_like(start)
    state.view(-1)[700:900] = torch.randn(200)  # some rows, and parts of rows, of the client's earlier jobs
    ends = []
    for way in (dense, by_rows):
        model.load(start)
        way(model, rule, start, state)
        ends.append(model.vector.clone())
    assert torch.equal(*ends)
    assert ends[0].isfinite().all()
    assert not torch.equal(ends[0], start)


def test_rows_that_nothing_moves_are_left_out() -> None:
    torch.manual_seed(1)
    model = FlatModel(Words())
    asked: list[int] = []

    class Watching(LocalRule):
        def gradient(self, params: Any, start: Any, state: Any) -> Any:
            asked.append(params.numel())
            return 0.5 * (params - start)

    step = model.sgd(Pull(Watching(), model.trainable.clone(), None))
    model.backward(model.module(torch.tensor([[1, 2, 2], [7, 1, 0]])).sum())
    asked.clear()
    step(RATE)
    assert asked == [3 + 5, WIDTH * 2 + 2, 3 * WIDTH]  # before and frozen; the head; the words 1, 2 and 7
