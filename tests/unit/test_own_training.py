"""A training function of the user's own: plain PyTorch, held to nothing but what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import afbs
from afbs.clients.own import Lesson
from afbs.clients.trainer import Trainer
from afbs.config import load
from afbs.experiment.kernel import chosen
from afbs.native.library import best
from afbs.types import Order, Shipped, UserError, Vector
from small import gradient, workload
from tiny import TINY


def one_step(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, Any]:
    """A step of SGD over everything."""
    x, y = data.tensors
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.sub_(order.rate * parameter.grad)
    return {"loss": loss.detach(), "steps": 1, "samples": len(data)}


def done(train: Callable[..., Any], order: Order | None = None, **training: Any) -> tuple[Vector, Vector, Shipped]:
    trainer = Trainer(workload(ships="end", function=train, **training))
    base, out = trainer.initial(), np.empty_like(trainer.initial())
    return base, out, trainer.train(0, order or Order(2, 7, 0, 0, 0.0, 0.5), base, out)


def test_what_the_function_leaves_is_what_the_client_ships() -> None:
    base, out, shipped = done(one_step)
    data = workload().dataset
    expected = base - 0.5 * gradient(base, data.train_x[20:30], data.train_y[20:30])
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert (shipped.outcome, shipped.steps, shipped.samples, list(shipped.told)) == ("done", 1, 10, ["loss"])


def test_the_function_is_told_whom_it_trains_how_much_and_at_which_rate() -> None:
    seen: list[Lesson] = []

    def train(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
        seen.append(order)
        assert model.training
        return {}

    done(train, epochs=3)
    done(train, Order(1, 0, 4, 0, 0.0, 0.1, steps=5), epochs=3)
    done(train, Order(1, 0, 4, 0, 0.0, 0.1, epochs=2), steps=9)
    assert [(one.client, one.version, one.rate, one.epochs, one.steps, one.batch_size) for one in seen] == [
        (2, 7, 0.5, 3, 0, 10),
        (1, 0, 0.1, 0, 5, 10),
        (1, 0, 0.1, 2, 0, 10),
    ]
    assert seen[0].seed != seen[1].seed == seen[2].seed


def test_whatever_is_done_to_the_network_is_over_after_the_job() -> None:
    def vandal(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
        model.dense = nn.Linear(2, 3)
        model.eval()
        return {}

    trainer = Trainer(workload(ships="end", function=vandal))
    out = [np.empty_like(trainer.initial()) for _ in range(2)]
    before = trainer.evaluate(0, trainer.initial(), 0).totals
    for row in out:
        trainer.train(0, Order(0, 0, 0, 0, 0.0, 0.1), trainer.initial(), row)
    after = trainer.evaluate(0, trainer.initial(), 0).totals
    assert out[0].tobytes() == out[1].tobytes() != trainer.initial().tobytes(), (
        "what is drawn is drawn from the job's seed"
    )
    assert before["loss"] == after["loss"]


def test_an_update_that_is_not_finite_is_told_as_one() -> None:
    def burst(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
        nn.init.constant_(next(model.parameters()), torch.inf)
        return {"loss": torch.inf}

    assert done(burst)[2].outcome == "not finite"


def returns(what: Any) -> Callable[..., Any]:
    def train(model: nn.Module, data: TensorDataset, order: Lesson) -> Any:
        return what

    return train


def grow(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
    model.more = nn.Linear(2, 2)
    return {}


def leave(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
    model.to("meta")
    return {}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (returns(None), r"returns.<locals>.train returned nothing; it must return numbers by their names, such as"),
        (returns(0.5), r"returns.<locals>.train returned a float; it must return numbers by their names"),
        (
            returns({"loss": "low"}),
            r"returns.<locals>.train returned 'low' for 'loss'; it must return numbers by their names",
        ),
        (grow, "grow left a network of 15 numbers, and was given one of 9"),
        (leave, "leave left the network on the device meta, and was given it on cpu"),
    ],
)
def test_what_a_function_gets_wrong_is_said_with_its_name(train: Callable[..., Any], message: str) -> None:
    with pytest.raises(UserError, match=f"`training.function`: {message}"):
        done(train)


def test_what_a_function_raises_is_raised_with_its_name_and_its_client() -> None:
    def stumble(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
        raise ArithmeticError("the user's own bug")

    with pytest.raises(ArithmeticError, match="the user's own bug") as raised:
        done(stumble, Order(2, 0, 0, 0, 0.0, 0.1))
    (note,) = raised.value.__notes__
    assert note.startswith("This was in `training.function`: ")
    assert note.endswith("stumble, of client 2.")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda model, data: {}, "must take three arguments: model, data, order"),
        ("afbs.types:Order", "must be a function `train(model, data, order)`, got "),
        ("nowhere:train", "no module called 'nowhere' can be imported"),
        (3, "`training.function`"),
    ],
)
def test_what_is_no_training_function_is_refused_before_anything_is_loaded(function: Any, message: str) -> None:
    with pytest.raises(UserError) as refused:
        load({}, {"training.function": function})
    assert message in str(refused.value)


def test_an_algorithm_whose_clients_add_to_the_gradient_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="clients of 'fedasync' add a term to every gradient"):
        afbs.run(TINY, runs=tmp_path, algorithm={"name": "fedasync"}, training={"function": one_step})


def by_batches(model: nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=order.rate)
    for _ in range(order.epochs):
        for x, y in DataLoader(data, order.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return {"loss": loss.item()}


def test_a_run_has_the_same_bits_on_any_number_of_workers_and_its_record_what_was_told(tmp_path: Path) -> None:
    runs = [
        afbs.run(TINY, folder=tmp_path / name, progress=False, executor=executor, training={"function": by_batches})
        for name, executor in (("inline", {"name": "inline"}), ("two", {"name": "processes", "workers": 2}))
    ]
    assert runs[0].params.tobytes() == runs[1].params.tobytes()
    told = [run.told for run in runs]
    assert told[0].equals(told[1])
    assert list(told[0].columns) == ["version", "client", "loss"]
    assert told[0].loss.notna().all()
    assert runs[0].best > 0.3
    assert runs[0].record.config["training"]["function"] == "test_own_training:by_batches"


def test_a_network_in_a_lower_precision_learns_and_rounds_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some virtual machines promise instructions for it that they do not have.
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    workers = {"name": "processes", "workers": 1}
    found = [
        afbs.run(TINY, folder=tmp_path / name, progress=False, executor=workers, training={"precision": name})
        for name in ("float32", "bfloat16")
    ]
    exact, rounded = (each.params for each in found)
    assert exact.tobytes() != rounded.tobytes()
    assert np.abs(exact - rounded).max() < 0.1 * np.abs(exact).max()
    assert found[1].best > 0.3
    assert rounded.dtype == np.float32


def test_a_native_kernel_is_for_the_usual_training_alone() -> None:
    data = workload().dataset
    with pytest.raises(UserError, match="it is for classification, in float32 and as `\\[training\\]` says"):
        chosen(load({"model": {"kernel": "native"}, "training": {"precision": "bfloat16"}}), data)
    found = [chosen(load(tables), data).model.kernel for tables in ({"task": {"name": "regression"}}, {})]
    assert found == ["torch", "native" if best() else "torch"]
