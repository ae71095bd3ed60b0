"""Local training and evaluation, against softmax regression worked out in numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from afbs.clients.trainer import Trainer
from afbs.interfaces import LocalRule
from afbs.types import ModelChoice, Order
from small import Softmax, dataset, gradient, with_data, workload

SIZE = 9


def order(client: int, occurrence: int, rate: float, **amount: int) -> Order:
    return Order(client, 0, occurrence, 0, 0.0, rate, **amount)


def train(trainer: Trainer, job: Order, base: Any, state: Any = None) -> tuple[np.ndarray, np.ndarray]:
    out = np.full(SIZE, np.nan, np.float32)
    new = np.full(SIZE, np.nan, np.float32)
    trainer.train(0, job, base, out, state, None if state is None else new)
    return out, new


def test_one_full_batch_is_one_step_down_the_gradient() -> None:
    work = workload()
    trainer = Trainer(work)
    base = trainer.initial()
    delta, _ = train(trainer, order(2, 0, 0.3), base)
    x, y = work.dataset.train_x[20:30], work.dataset.train_y[20:30]
    np.testing.assert_allclose(delta, 0.3 * gradient(base, x, y), rtol=1e-4, atol=1e-7)


def test_every_epoch_sees_every_sample_once_and_the_last_batch_may_be_smaller() -> None:
    trainer = Trainer(workload(epochs=3, batch_size=4))
    out = np.empty(SIZE, np.float32)
    done = trainer.train(5, order(0, 0, 0.1), trainer.initial(), out)
    assert (done.task, done.outcome, done.steps, done.samples) == (5, "done", 9, 30)


@pytest.mark.parametrize(
    ("amount", "steps", "samples"),
    [({"epochs": 2}, 6, 20), ({"steps": 2}, 2, 8), ({"steps": 3}, 3, 10), ({"steps": 8}, 8, 28)],
    ids=str,
)
def test_an_order_may_say_how_much_is_trained(amount: dict[str, int], steps: int, samples: int) -> None:
    """Batches of a client with ten samples are 4, 4 and 2."""
    trainer = Trainer(workload(epochs=3, batch_size=4))
    out = np.empty(SIZE, np.float32)
    done = trainer.train(0, order(0, 0, 0.1, **amount), trainer.initial(), out)
    assert (done.steps, done.samples) == (steps, samples)


def test_an_order_of_as_many_steps_as_usual_changes_nothing() -> None:
    trainer = Trainer(workload(epochs=3, batch_size=4))
    base = trainer.initial()
    usual, _ = train(trainer, order(1, 4, 0.1), base)
    for amount in ({"epochs": 3}, {"steps": 9}):
        assert train(trainer, order(1, 4, 0.1, **amount), base)[0].tobytes() == usual.tobytes()
    assert train(trainer, order(1, 4, 0.1, steps=8), base)[0].tobytes() != usual.tobytes()


def test_the_result_depends_on_the_arguments_alone() -> None:
    trainer = Trainer(workload(batch_size=3, epochs=2))
    base = trainer.initial()
    first, _ = train(trainer, order(1, 4, 0.1), base)
    train(trainer, order(2, 0, 5.0), base + 1)
    trainer.evaluate(0, base + 1, 0)
    again, _ = train(trainer, order(1, 4, 0.1), base)
    other, _ = train(Trainer(workload(batch_size=3, epochs=2)), order(1, 4, 0.1), base)
    assert first.tobytes() == again.tobytes() == other.tobytes()


def test_another_occurrence_shuffles_otherwise() -> None:
    trainer = Trainer(workload(batch_size=3))
    base = trainer.initial()
    assert train(trainer, order(1, 0, 0.1), base)[0].tobytes() != train(trainer, order(1, 1, 0.1), base)[0].tobytes()


class Dropped(Softmax):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(x, 0.5, self.training))


def test_what_a_network_draws_itself_follows_from_the_job_alone() -> None:
    work = replace(workload(), model=ModelChoice(Dropped))
    trainer = Trainer(work)
    base = trainer.initial()
    first, _ = train(trainer, order(1, 0, 0.1), base)
    torch.rand(7)
    assert train(trainer, order(1, 0, 0.1), base)[0].tobytes() == first.tobytes()
    assert train(trainer, order(1, 1, 0.1), base)[0].tobytes() != first.tobytes()


def test_the_initial_model_follows_from_the_seed() -> None:
    assert Trainer(workload()).initial().tobytes() == Trainer(workload()).initial().tobytes()
    assert Trainer(replace(workload(), seed=2)).initial().tobytes() != Trainer(workload()).initial().tobytes()


def test_a_client_may_ship_its_model_instead_of_its_change() -> None:
    base = Trainer(workload()).initial()
    delta, _ = train(Trainer(workload()), order(0, 0, 0.1), base)
    end, _ = train(Trainer(workload(ships="end")), order(0, 0, 0.1), base)
    np.testing.assert_allclose(end, base - delta, atol=1e-7)


class Pull(LocalRule):
    """Pulls towards the start and remembers how far it came."""

    stateful = True

    def gradient(self, params: Any, start: Any, state: Any) -> Any:
        return 0.5 * (params - start) - state

    def finish(self, state: Any, start: Any, end: Any) -> Any:
        return state + (end - start)


def test_a_rule_adds_to_every_gradient_and_its_state_is_kept() -> None:
    work = workload(rule=Pull(), epochs=2)
    trainer = Trainer(work)
    base = trainer.initial()
    state = np.linspace(-1, 1, SIZE).astype(np.float32)
    delta, new = train(trainer, order(3, 0, 0.2), base, state)
    x, y = work.dataset.train_x[30:], work.dataset.train_y[30:]
    params = base.astype(np.float64)
    for _ in range(2):
        params = params - 0.2 * (gradient(params, x, y) + 0.5 * (params - base) - state)
    np.testing.assert_allclose(base - delta, params, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(new, state + (params - base), rtol=1e-4, atol=1e-6)


def test_a_result_that_is_not_finite_is_reported() -> None:
    trainer = Trainer(workload())
    out = np.empty(SIZE, np.float32)
    assert trainer.train(0, order(0, 0, float("inf")), trainer.initial(), out).outcome == "not finite"


def test_evaluation_counts_what_is_taken_for_what() -> None:
    work = workload()
    trainer = Trainer(work)
    # Every bias but that of class 2 is far below: everything is taken for class 2.
    params = np.array([0] * 6 + [-50, -50, 50], np.float32)
    found = trainer.evaluate(7, params, 0)
    labels = work.dataset.test_y
    assert found.task == 7
    assert found.totals["confusion"][:, 2].tolist() == np.bincount(labels, minlength=3).tolist()
    assert found.totals["confusion"].sum() == len(labels) == 11
    assert found.totals["loss"] == pytest.approx(100.0 * (labels != 2).sum(), rel=1e-5)


def test_evaluation_does_not_train() -> None:
    trainer = Trainer(workload())
    base = trainer.initial()
    before = base.tobytes()
    trainer.evaluate(0, base, 0)
    assert base.tobytes() == before


def test_pixels_are_scaled_to_the_mean_and_deviation_of_their_channel() -> None:
    pixels = (np.arange(40 * 2).reshape(40, 2) * 3).astype(np.uint8)
    data = with_data(workload(), train_x=pixels, test_x=pixels[:11], shift=(0.5, 0.25), scale=(0.1, 0.2))
    as_floats = (pixels / 255.0 - [0.5, 0.25]) / [0.1, 0.2]
    plain = with_data(workload(), train_x=as_floats.astype(np.float32), test_x=as_floats[:11].astype(np.float32))
    base = Trainer(data).initial()
    np.testing.assert_allclose(
        train(Trainer(data), order(0, 0, 0.1), base)[0],
        train(Trainer(plain), order(0, 0, 0.1), base)[0],
        rtol=1e-3,
        atol=1e-6,
    )


def test_parts_of_the_test_set_cover_it_once() -> None:
    big = dataset()
    work = with_data(workload(), test_x=np.tile(big.test_x, (400, 1)), test_y=np.tile(big.test_y, 400))
    trainer = Trainer(work)
    assert work.evaluation_parts == 3
    whole = np.sum([trainer.evaluate(0, trainer.initial(), part).totals["confusion"] for part in range(3)], axis=0)
    once = Trainer(workload()).evaluate(0, trainer.initial(), 0).totals["confusion"]
    assert (whole == 400 * once).all()
