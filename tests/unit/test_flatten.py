"""A model as one vector: what is in it, in which order, and what is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from afbs.clients.flatten import FlatModel
from afbs.types import UserError


def test_the_vector_holds_parameters_in_their_order() -> None:
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0]]))
        module.bias.fill_(3.0)
    assert FlatModel(module).vector.tolist() == [1.0, 2.0, 3.0]


def test_loading_a_vector_changes_what_the_module_computes() -> None:
    model = FlatModel(nn.Linear(2, 1))
    model.load(torch.tensor([10.0, 1.0, 0.5]))
    assert model.module(torch.tensor([[2.0, 3.0]])).item() == 23.5


def test_gradients_arrive_in_one_flat_tensor() -> None:
    model = FlatModel(nn.Linear(2, 1))
    model.module(torch.tensor([[2.0, 3.0]])).sum().backward()
    assert model.gradient.tolist() == [2.0, 3.0, 1.0]


def test_running_statistics_travel_after_the_parameters_and_counters_do_not() -> None:
    model = FlatModel(nn.BatchNorm1d(2))
    # weight (2), bias (2), running mean (2), running variance (2); not num_batches_tracked
    assert model.vector.tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    assert len(model.trainable) == 4
    model.module.train()
    model.module(torch.tensor([[0.0, 0.0], [2.0, 4.0]]))
    assert model.vector[4:6].tolist() == pytest.approx([0.1, 0.2])  # momentum 0.1 of the means 1 and 2


def test_counters_begin_every_job_anew() -> None:
    model = FlatModel(nn.BatchNorm1d(2))
    start = model.vector.clone()
    model.module.train()
    model.module(torch.ones(3, 2))
    assert int(model.module.num_batches_tracked) == 1  # type: ignore[arg-type]
    model.load(start)
    assert int(model.module.num_batches_tracked) == 0  # type: ignore[arg-type]


def test_a_weight_that_two_layers_share_is_there_once() -> None:
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    model = FlatModel(nn.Sequential(first, second))
    assert len(model.vector) == 9
    model.load(torch.eye(3).reshape(-1) * 2)
    assert model.module(torch.ones(1, 3)).tolist() == [[4.0, 4.0, 4.0]]


def test_a_frozen_parameter_travels_but_gets_no_gradient() -> None:
    module = nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    model = FlatModel(module)
    model.module(torch.ones(1, 2)).sum().backward()
    assert len(model.vector) == 3
    assert model.gradient.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("module", [nn.Linear(2, 1).double(), nn.ReLU()])
def test_what_is_not_float32_or_has_nothing_to_train_is_refused(module: nn.Module) -> None:
    with pytest.raises(UserError, match="every parameter must be float32"):
        FlatModel(module)
