"""A task says what the loss of a batch is and what is measured; what it gets wrong is said with class and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.config import load
from afbs.interfaces import Plain, Task
from afbs.metrics import ACCURACY, LOSS, Metric
from afbs.tasks import on_test_set
from afbs.tasks.classification import Classification
from afbs.tasks.language_model import LanguageModel
from afbs.tasks.regression import Regression
from afbs.types import Dataset, ModelChoice, Order, Training, UserError

ERROR = Metric("error", better="less")
RNG = np.random.default_rng(5)
X = RNG.normal(size=(1300, 3)).astype(np.float32)
Y = (2.0 * X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=1300)).astype(np.float32)
NUMBERS = Dataset(X[:600], Y[:600], X[600:], Y[600:], classes=0)


class Linear(nn.Module):
    """Weights that are known, so that outputs are."""

    def __init__(self, classes: int = 1):
        super().__init__()
        self.layer = nn.Linear(3, classes)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(x)
        return outputs


def work(task: Task, data: Dataset = NUMBERS, model: Any = Linear, **training: Any) -> Workload:
    settings = Training(**{"lr": 0.1, "batch_size": 50, **training})
    return Workload(data, [np.arange(100)], ModelChoice(model), settings, Plain(), "end", seed=1, task=task)


def score(work: Workload) -> Mapping[str, float]:
    """What the untrained network has on the whole test set, part by part."""
    trainer = Trainer(work)
    parts = [trainer.evaluate(0, trainer.initial(), part).totals for part in range(work.evaluation_parts)]
    return on_test_set(work.task)(parts).values


def test_a_classification_counts_accuracy_f1_and_the_highest_scores() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]])
    task = Classification(top=2)
    totals = task.tally(lambda x: scores[x], torch.arange(4), torch.tensor([0, 2, 2, 2]))
    found = task.conclude(totals)
    assert totals["confusion"].tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1]]
    # Of class 0, one of one is right and two are guessed; of class 2, one of three is right and one is guessed.
    assert found.values["f1"] == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert (found.values["accuracy"], found.values["top2"]) == (0.5, 1.0)
    assert found.details["per_class"] == [1.0, None, 0.3333]
    assert [metric.name for metric in task.metrics] == list(found.values) == ["accuracy", "loss", "f1", "top2"]


def test_a_regression_measures_in_the_unit_of_the_labels() -> None:
    """The network learns (y - 3) / 2, so what it gives stands for twice as much plus three."""
    found = score(work(Regression(shift=3.0, scale=2.0)))
    gap = (0.5 * X[600:].sum(axis=1) * 2 + 3 - Y[600:]).astype(np.float64)
    assert found["rmse"] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-5)
    assert found["mae"] == pytest.approx(np.abs(gap).mean(), rel=1e-5)
    assert found["loss"] == pytest.approx((gap**2).mean() / 4, rel=1e-5)
    assert found["r2"] == pytest.approx(1 - (gap**2).mean() / Y[600:].var(), rel=1e-4)


def test_a_regression_has_as_many_outputs_as_labels_and_learns_them() -> None:
    both = np.stack([Y, -Y], axis=1)
    data = replace(NUMBERS, train_y=both[:600], test_y=both[600:])
    given = work(Regression(), data, epochs=30)
    trainer = Trainer(given)
    out = np.empty_like(trainer.initial())
    assert len(out) == 2 * 3 + 2
    trainer.train(0, Order(0, 0, 0, 0, 0.0, 0.1), trainer.initial(), out)
    np.testing.assert_allclose(out[:6].reshape(2, 3), [[2, -1, 0], [-2, 1, 0]], atol=0.05)


class Uniform(nn.Module):
    """Every token is as likely as any other; the parameter only makes it trainable."""

    def __init__(self, tokens: int):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(tokens))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores.expand(*x.shape, -1)


def test_the_perplexity_of_a_network_that_knows_nothing_is_the_number_of_tokens() -> None:
    rows = RNG.integers(1, 7, size=(40, 9)).astype(np.int32)
    labels = np.zeros(40, np.int64)
    data = Dataset(rows, labels, rows, labels, 1, tokens=7)
    assert score(work(LanguageModel(), data, Uniform))["perplexity"] == pytest.approx(7.0, rel=1e-6)
    padded = rows.copy()
    padded[:, 3:] = 0
    # Only the second and the third token of each row are predicted: the others are padding.
    likely = torch.log(torch.tensor([0.5, 0.25, 0.25, 0, 0, 0, 0]) + 1e-9)
    task, x = LanguageModel(), torch.from_numpy(padded[:4]).long().clamp(max=2)
    totals = task.tally(lambda x: likely.expand(*x.shape, -1), x, None)
    assert totals["loss"].tolist() == [pytest.approx(8 * log(4), rel=1e-5), 8]
    assert task.score({"loss": log(4), "accuracy": 0.5})["perplexity"] == pytest.approx(4.0)
    assert task.score({"loss": 1e6, "accuracy": 0.5})["perplexity"] == inf
    assert exp(700) < inf


@dataclass(frozen=True)
class Absolute(Task):
    """Twenty lines of a user's own."""

    power: float = 1.0
    metrics = (ERROR, LOSS)

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return (model(x)[:, 0] - y).abs().mean()

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        return {"error": (model(x)[:, 0] - y).abs() ** self.power}


def test_means_are_over_all_samples_however_they_were_batched() -> None:
    """The 700 samples of the test set come as 500 and 200: a mean of the two means would be another number."""
    found = score(work(Absolute()))
    gaps = np.abs(0.5 * X[600:].sum(axis=1) - Y[600:])
    assert found["error"] == pytest.approx(gaps.mean(), rel=1e-5)
    assert found["error"] != pytest.approx((gaps[:500].mean() + gaps[500:].mean()) / 2, rel=1e-5)
    assert found["loss"] == pytest.approx(found["error"], rel=1e-6), "what is not measured but declared is the loss"


def test_a_task_of_ones_own_is_trained_by_its_own_loss() -> None:
    """By absolute gaps, a step moves each weight by the mean of the signs, times its feature."""
    given = work(Absolute(), epochs=1, batch_size=100)
    trainer = Trainer(given)
    out = np.empty_like(trainer.initial())
    trainer.train(0, Order(0, 0, 0, 0, 0.0, 0.1), trainer.initial(), out)
    signs = np.sign(0.5 * X[:100].sum(axis=1) - Y[:100])
    np.testing.assert_allclose(out[:3], 0.5 - 0.1 * (signs[:, None] * X[:100]).mean(axis=0), rtol=1e-4)


def test_a_task_may_draw_and_an_evaluation_is_the_same_whoever_does_it() -> None:
    class Noisy(Absolute):
        def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
            return {"error": torch.rand(len(x))}

    first, second = Trainer(work(Noisy())), Trainer(work(Noisy()))
    torch.manual_seed(9)
    found = [one.evaluate(0, one.initial(), 0).totals["error"].tolist() for one in (first, second, first)]
    assert found[0] == found[1] == found[2]


class NoLoss(Absolute):
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return None


class RowOfLosses(Absolute):
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return model(x)[:, 0] - y


class Detached(Absolute):
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return super().loss(model, x, y).detach()


class NotFinite(Absolute):
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return super().loss(model, x, y) / 0


class Mean(Absolute):
    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        return {"error": (model(x)[:, 0] - y).abs().mean()}


class Nothing(Absolute):
    def measure(self, model: Any, x: Any, y: Any) -> Any:
        return None


class Other(Absolute):
    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        return {"eror": (model(x)[:, 0] - y).abs()}


class More(Absolute):
    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        return {**super().measure(model, x, y), "bias": model(x)[:, 0] - y}


class Raises(Absolute):
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return super().loss(model, x, y[:1].expand(5))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (NoLoss, "NoLoss.loss must return the mean loss, a tensor of no dimension, got nothing"),
        (RowOfLosses, r"RowOfLosses.loss must return the mean loss, .*, got a tensor of shape \(2,\)"),
        (Detached, "Detached.loss must return .*, got one that does not depend on the network's parameters"),
        (NotFinite, "NotFinite.loss gives inf for the first two samples and an untrained network"),
        (Mean, "Mean.measure must give one number a sample for 'error', not their mean or sum"),
        (Nothing, "Nothing.measure must return numbers by their names, got nothing"),
        (Other, "Other.measure gives no 'error', and Other.metrics names 'error', 'loss'"),
        (More, "More.measure gives 'bias', and More.metrics names 'error', 'loss'"),
        (Raises, r"Raises.loss raised RuntimeError for samples and labels of shape \(2, 3\) and \(2,\): "),
    ],
)
def test_what_a_task_of_ones_own_gets_wrong_is_said_before_anything_is_trained(
    task: type[Absolute], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Trainer(work(task()))


class Tires(Absolute):
    """Copes with the two samples that it is tried on, and with no more."""

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return super().loss(model, x, y) if len(x) == 2 else 1 / 0

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        return super().measure(model, x, y) if len(x) == 2 else {"error": 1 / 0}


def test_what_a_task_raises_later_is_raised_with_the_class_and_the_method() -> None:
    trainer = Trainer(work(Tires()))
    base = trainer.initial()
    with pytest.raises(ZeroDivisionError) as raised:
        trainer.train(0, Order(0, 0, 0, 0, 0.0, 0.1), base, np.empty_like(base))
    assert raised.value.__notes__ == ["This was in `task`: Tires.loss, of 50 samples."]
    with pytest.raises(ZeroDivisionError) as raised:
        trainer.evaluate(0, base, 0)
    assert raised.value.__notes__[0].startswith("This was in `task`: Tires.measure, of ")


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        (Classification(), replace(NUMBERS, train_y=np.zeros(600, np.int64), classes=4), r"\(2, 4\), got \(2, 1\)"),
        (Regression(), replace(NUMBERS, train_y=np.zeros((600, 2), np.float32)), r"\(2, 2\), got \(2, 1\)"),
    ],
)
def test_a_network_that_does_not_fit_its_task_is_refused(task: Task, data: Dataset, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Trainer(work(task, data, lambda: Linear(1)))


def test_data_that_does_not_fit_its_task_is_refused() -> None:
    with pytest.raises(UserError, match="needs labels that are classes, and those of the data are numbers"):
        Classification().check(NUMBERS)
    with pytest.raises(UserError, match=r"needs rows of two tokens or more, and samples are numbers of shape \(3,\)"):
        LanguageModel().check(NUMBERS)
    with pytest.raises(UserError, match=r"needs labels that are numbers, and .* are names \('calm', 'rough'\)"):
        Regression().check(replace(NUMBERS, train_y=np.zeros(600, np.int64), classes=2, names=("calm", "rough")))
    with pytest.raises(UserError, match=r"`task.top` must be below the number of classes \(3\), got 3"):
        Classification(top=3).check(replace(NUMBERS, classes=3))


def declaring(declared: Any) -> type[Task]:
    class Bad(Absolute):
        metrics = declared

    return Bad


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ((), "the class Bad must say what it measures, and has ()"),
        ("error", "the class Bad must say what it measures, and has 'error'"),
        ((Metric("time"),), "Bad.metrics names 'time'"),
        ((Metric("a b"),), "Bad.metrics names 'a b'"),
        ((ERROR, ERROR), "Bad.metrics names 'error'"),
    ],
)
def test_metrics_that_a_record_cannot_hold_are_refused(metrics: Any, message: str) -> None:
    with pytest.raises(UserError) as refused:
        load({}, {"task": declaring(metrics)()})
    assert message in str(refused.value)


def test_a_target_is_the_tasks_own_unless_one_is_set() -> None:
    assert load({}).evaluation.target == 0.9
    assert load({"task": {"name": "regression"}}).evaluation.target is None
    assert load({"task": {"name": "regression"}, "evaluation": {"target": 57.0}}).evaluation.target == 57.0


def test_a_metric_knows_which_way_is_better_and_how_it_is_written() -> None:
    values = np.array([np.nan, 5.0, 3.0, 4.0])
    assert (ERROR.best(values), ACCURACY.best(values)) == (3.0, 5.0)
    assert (ERROR.reached(values, 4.0).tolist(), ACCURACY.reached(values, 4.0).tolist()) == ([2, 3], [1, 3])
    assert (ACCURACY.text(0.8125), Metric("rmse", "less", unit="m").text(12.3456)) == ("81.2 %", "12.35 m")
    assert (ACCURACY.axis, Metric("rmse", unit="m", title="RMSE").axis, ACCURACY.brief(None)) == (
        "accuracy (%)",
        "RMSE (m)",
        "acc. –",
    )
