"""The last batch of an epoch: kept, dropped, or merged with the one before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import afbs
from afbs.clients.batches import batches
from afbs.clients.trainer import Trainer
from afbs.types import ModelChoice, Order, Training
from small import gradient, workload
from tiny import TINY


def order(client: int, occurrence: int, rate: float, steps: int = 0) -> Order:
    return Order(client, 0, occurrence, 0, 0.0, rate, steps=steps)


@pytest.mark.parametrize(
    ("samples", "rule", "sizes"),
    [
        (10, "keep", [4, 4, 2]),
        (10, "drop", [4, 4]),
        (10, "merge", [4, 6]),
        (8, "keep", [4, 4]),
        (8, "drop", [4, 4]),
        (8, "merge", [4, 4]),
        (5, "merge", [5]),
        (3, "keep", [3]),
        (3, "drop", [3]),
        (3, "merge", [3]),
        (1, "drop", [1]),
    ],
)
def test_an_epoch_is_cut_as_the_setting_says(samples: int, rule: Any, sizes: list[int]) -> None:
    assert batches(samples, Training(batch_size=4, last_batch=rule)) == sizes


@pytest.mark.parametrize(("rule", "steps", "samples"), [("keep", 3, 10), ("drop", 2, 8), ("merge", 2, 10)])
def test_steps_and_samples_are_counted_as_they_are_trained(rule: Any, steps: int, samples: int) -> None:
    trainer = Trainer(workload(batch_size=4, epochs=5, last_batch=rule))
    done = trainer.train(0, order(0, 0, 0.1), trainer.initial(), np.empty(9, np.float32))
    assert (done.steps, done.samples) == (5 * steps, 5 * samples)


@pytest.mark.parametrize(
    ("rule", "steps", "samples"),
    [("keep", 4, 14), ("drop", 4, 16), ("merge", 4, 20), ("merge", 3, 14), ("drop", 1, 4), ("keep", 3, 10)],
)
def test_an_order_of_so_many_steps_ends_in_the_middle_of_an_epoch(rule: Any, steps: int, samples: int) -> None:
    """Ten samples are batches of 4, 4, 2, of 4, 4, or of 4, 6."""
    trainer = Trainer(workload(batch_size=4, epochs=5, last_batch=rule))
    done = trainer.train(0, order(0, 0, 0.1, steps), trainer.initial(), np.empty(9, np.float32))
    assert (done.steps, done.samples) == (steps, samples)


def test_merging_two_batches_is_one_step_on_all_of_them() -> None:
    work = workload(batch_size=9, last_batch="merge")
    trainer = Trainer(work)
    base, out = trainer.initial(), np.empty(9, np.float32)
    trainer.train(0, order(2, 0, 0.3), base, out)
    x, y = work.dataset.train_x[20:30], work.dataset.train_y[20:30]
    np.testing.assert_allclose(out, 0.3 * gradient(base, x, y), rtol=1e-4, atol=1e-7)


def normed(shape: tuple[int, ...], classes: int) -> nn.Module:
    width = int(np.prod(shape))
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(width), nn.Linear(width, classes))


@pytest.mark.parametrize(
    ("settings", "samples", "said"),
    [
        (
            {"batch_size": 3},
            10,
            "client 0 has one at the end of its 10. `training.last_batch` = 'merge' or 'drop' would",
        ),
        ({"batch_size": 1}, 10, "client 0 has no other at `training.batch_size` = 1. A larger one would do."),
        ({"last_batch": "merge"}, 1, "client 0 has only one sample. `partition.min_examples` = 2 or a network without"),
    ],
)
def test_batchnorm_on_one_sample_is_a_sentence(settings: dict[str, Any], samples: int, said: str) -> None:
    work = replace(workload(**settings), model=ModelChoice(normed), indices=[np.arange(samples)])
    trainer = Trainer(work)
    base = trainer.initial()
    with pytest.raises(afbs.UserError) as refused:
        trainer.train(0, order(0, 0, 0.1), base, np.empty_like(base))
    assert said in str(refused.value)


@pytest.mark.parametrize("rule", ["drop", "merge"])
def test_batchnorm_trains_once_no_batch_has_one_sample(rule: Any) -> None:
    work = replace(workload(batch_size=3, last_batch=rule), model=ModelChoice(normed))
    trainer = Trainer(work)
    base = trainer.initial()
    assert trainer.train(0, order(0, 0, 0.1), base, np.empty_like(base)).outcome == "done"


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_a_run_with_batchnorm_and_a_last_batch_of_one_ends_with_that_sentence(executor: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"training.batch_size": 2, "executor": {"name": executor}}
    with pytest.raises(afbs.UserError, match="its BatchNorm cannot train on a batch of one sample, and client"):
        afbs.run(TINY, runs=tmp_path, model=normed, **settings)
