"""Local optimizers, against `torch.optim` on a module of its own, step for step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

import afbs
import tiny
from afbs.clients.flatten import FlatModel
from afbs.clients.optimizers import descent
from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.config import load
from afbs.core.local import Proximal
from afbs.seeds import Key
from afbs.types import Dataset, ModelChoice, Order, Training, UserError, Vector
from kernels import needs_kernels
from small import workload

CLIENT = 2
STEPS = 8  # of batches of 4, 4 and 2: almost three epochs
SEVERAL: dict[str, tuple[dict[str, Any], Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd, decayed": ({"optimizer": "sgd", "weight_decay": 0.1}, torch.optim.SGD, {"weight_decay": 0.1}),
    "sgd, clipped": ({"clip_norm": 0.05}, torch.optim.SGD, {}),
    "momentum": ({"optimizer": "momentum"}, torch.optim.SGD, {"momentum": 0.9}),
    "momentum, decayed": (
        {"optimizer": "momentum", "momentum": 0.5, "weight_decay": 0.1},
        torch.optim.SGD,
        {"momentum": 0.5, "weight_decay": 0.1},
    ),
    "nesterov, decayed": (
        {"optimizer": "nesterov", "weight_decay": 0.01},
        torch.optim.SGD,
        {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    ),
    "adam": ({"optimizer": "adam"}, torch.optim.Adam, {}),
    "adam, all": (
        {"optimizer": "adam", "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1, "clip_norm": 0.2},
        torch.optim.Adam,
        {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "adamw": ({"optimizer": "adamw", "weight_decay": 0.5}, torch.optim.AdamW, {"weight_decay": 0.5}),
    "adamw, clipped": ({"optimizer": "adamw", "clip_norm": 0.1}, torch.optim.AdamW, {"weight_decay": 0.0}),
}


class Fixed(nn.Module):
    """Does not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 8.0) / 4, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) * self.weight


class Network(nn.Sequential):
    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__(nn.Linear(shape[0], 7), Fixed(), nn.Linear(7, classes))


def work(settings: dict[str, Any], **changes: Any) -> Workload:
    return replace(workload(**{"epochs": 3, "batch_size": 4, **settings}), model=ModelChoice(Network), **changes)


def trained(work: Workload, steps: int = 0, rate: float = 0.05, **amount: int) -> Vector:
    """What the client's model is after a job."""
    trainer = Trainer(replace(work, ships="end"))
    end = np.empty_like(trainer.initial())
    done = trainer.train(0, Order(CLIENT, 0, 0, 0, 0.0, rate, steps=steps, **amount), trainer.initial(), end)
    assert done.outcome == "done"
    return end


def by_torch(
    work: Workload,
    make: Callable[..., torch.optim.Optimizer],
    chosen: dict[str, Any],
    clip_norm: float = inf,
    schedule: Callable[[torch.optim.Optimizer], LRScheduler] | None = None,
    rho: float = 0.0,
) -> Iterator[Vector]:
    """The same client's model after each step, as anybody would write it with torch."""
    module = copy.deepcopy(Trainer(work)._model.module)
    for parameter in module.parameters():
        parameter.data, parameter.grad = parameter.data.clone(), None
    start = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = make([each for each in module.parameters() if each.requires_grad], lr=0.05, **chosen)
    falling = schedule(optimizer) if schedule else None
    data, indices = work.dataset, work.indices[CLIENT]
    rng = Key.root(work.seed, "job").child(CLIENT, 0).generator()
    while True:
        for batch in torch.split(torch.from_numpy(rng.permutation(len(indices))), 4):
            mine = indices[batch.numpy()]
            x, y = torch.from_numpy(data.train_x[mine]), torch.from_numpy(data.train_y[mine])
            optimizer.zero_grad()
            loss = cross_entropy(module(x), y)
            loss = loss + rho / 2 * sum(
                ((now - then) ** 2).sum() for now, then in zip(module.parameters(), start, strict=True)
            )
            loss.backward()
            if clip_norm < inf:
                torch.nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
            optimizer.step()
            if falling:
                falling.step()
            yield torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()


def gap(ours: Vector, theirs: Vector) -> float:
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


@pytest.mark.parametrize("name", SEVERAL)
def test_every_step_is_that_of_torch(name: str) -> None:
    settings, make, chosen = SEVERAL[name]
    given = work(settings)
    steps = by_torch(given, make, chosen, settings.get("clip_norm", inf))
    for number, expected in zip(range(1, STEPS + 1), steps, strict=False):
        assert gap(trained(given, number), expected) <= 1e-6
    plain = trained(work({}), STEPS)
    assert gap(expected, plain) > 1e-3, "it would be no test if nothing were different"


@pytest.mark.parametrize("name", ["momentum", "adam, all"])
def test_a_rules_term_is_a_part_of_the_gradient(name: str) -> None:
    settings, make, chosen = SEVERAL[name]
    given = work(settings, rule=Proximal(0.7))
    expected = list(zip(range(STEPS), by_torch(given, make, chosen, settings.get("clip_norm", inf), rho=0.7)))[-1][1]  # noqa: B905
    assert gap(trained(given, STEPS), expected) <= 1e-6
    assert gap(trained(work(settings), STEPS), expected) > 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("schedule", "theirs"),
    [
        ("linear", lambda optimizer: LinearLR(optimizer, 1.0, 0.0, total_iters=STEPS)),
        ("cosine", lambda optimizer: CosineAnnealingLR(optimizer, T_max=STEPS)),
    ],
    ids=["linear", "cosine"],
)
def test_a_schedule_falls_over_the_jobs_own_steps_as_torchs_does(optimizer: str, schedule: str, theirs: Any) -> None:
    given = work({"optimizer": optimizer, "schedule": schedule})
    make = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    expected = list(zip(range(STEPS), by_torch(given, make, {}, schedule=theirs)))[-1][1]  # noqa: B905
    assert gap(trained(given, STEPS), expected) <= 1e-6
    assert gap(trained(work({"optimizer": optimizer}), STEPS), expected) > 1e-3


def test_by_default_it_is_plain_sgd_on_the_models_own_path() -> None:
    model = FlatModel(nn.Linear(2, 1))
    assert descent(Training(), model) == model.sgd()
    assert descent(Training(schedule="cosine", steps=7), model) == model.sgd()
    for settings in ({"optimizer": "adam"}, {"weight_decay": 0.1}, {"clip_norm": 1.0}):
        assert descent(Training(**settings), model) != model.sgd()


@pytest.mark.parametrize("name", SEVERAL)
def test_nothing_is_remembered_from_one_job_to_the_next(name: str) -> None:
    trainer = Trainer(work(SEVERAL[name][0]))
    base, first, again = trainer.initial(), np.empty_like(trainer.initial()), np.empty_like(trainer.initial())
    job = Order(CLIENT, 0, 0, 0, 0.0, 0.05)
    trainer.train(0, job, base, first)
    trainer.train(0, Order(1, 0, 3, 0, 0.0, 0.7), base + 1, again)
    trainer.train(0, job, base, again)
    assert again.tobytes() == first.tobytes()


@pytest.mark.parametrize(
    ("amount", "steps"),
    [({}, 5), ({"epochs": 2}, 6), ({"steps": 2}, 2), ({"steps": 9}, 9)],
    ids=str,
)
def test_steps_stand_for_epochs_unless_the_order_says_otherwise(amount: dict[str, int], steps: int) -> None:
    """An epoch has three steps."""
    trainer = Trainer(workload(epochs=4, batch_size=4, steps=5))
    out = np.empty(9, np.float32)
    done = trainer.train(0, Order(0, 0, 0, 0, 0.0, 0.1, **amount), trainer.initial(), out)
    assert done.steps == steps


def test_clipping_by_hand() -> None:
    """A gradient of (3, 4) has a norm of 5; clipped to 1, a step at rate 1 goes to (-0.6, -0.8)."""
    model = FlatModel(nn.Linear(2, 1, bias=False))
    model.load(torch.zeros(2))
    model.gradient.copy_(torch.tensor([3.0, 4.0]))
    descent(Training(clip_norm=1.0), model)(1.0)
    assert model.vector.tolist() == pytest.approx([-0.6, -0.8], rel=1e-6)
    model.gradient.copy_(torch.tensor([0.3, 0.4]))
    descent(Training(clip_norm=1.0), model)(1.0)
    assert model.vector.tolist() == pytest.approx([-0.9, -1.2], rel=1e-6), "shorter than that it stays what it is"


def test_adam_by_hand() -> None:
    """The first step is rate · sign; then mean 0.1·(0.9·2 - 1), square 0.001·(0.999·4 + 1), both unbiased."""
    model = FlatModel(nn.Linear(1, 1, bias=False))
    model.load(torch.zeros(1))
    descend = descent(Training(optimizer="adam"), model)
    model.gradient.fill_(2.0)
    descend(0.1)
    assert model.vector.item() == pytest.approx(-0.1, rel=1e-6)
    model.gradient.fill_(-1.0)
    descend(0.1)
    mean, square = 0.1 * (0.9 * 2 - 1) / (1 - 0.81), 0.001 * (0.999 * 4 + 1) / (1 - 0.999**2)
    assert model.vector.item() == pytest.approx(-0.1 - 0.1 * mean / sqrt(square), rel=1e-5)


@pytest.mark.parametrize("name", SEVERAL)
def test_what_is_frozen_does_not_even_decay(name: str) -> None:
    given = work(SEVERAL[name][0])
    before, after = Trainer(given).initial(), trained(given)
    fixed = slice(21, 28)  # after 14 weights and 7 biases
    assert before[fixed].tolist() == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]
    assert after[fixed].tobytes() == before[fixed].tobytes()


@pytest.mark.parametrize("settings", [{"optimizer": "adam"}, {"optimizer": "momentum", "clip_norm": 0.1}], ids=str)
def test_an_embedding_trains_alike_whether_its_gradient_is_sparse_or_not(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 30, (40, 6)), rng.integers(0, 3, 40)
    texts = Dataset(x, y, x, y, 3, tokens=50)
    ends = []
    for sparse in (True, False):
        model = ModelChoice("fasttext", {"dimension": 4, "sparse": sparse})
        ends.append(trained(replace(work(settings, dataset=texts), model=model)))
    assert gap(ends[0], ends[1]) <= 1e-6
    assert gap(ends[0], Trainer(replace(work({}, dataset=texts), model=model)).initial()) > 1e-3


@needs_kernels
@pytest.mark.parametrize("name", ["momentum, decayed", "nesterov, decayed", "adamw, clipped"])
def test_the_native_gradient_is_followed_the_same_way(name: str) -> None:
    """Adam divides by the size of a gradient, which makes much of a tiny one: its epsilon is larger here."""
    torch.set_num_threads(1)
    settings = {**SEVERAL[name][0], **({"epsilon": 1e-3} if "adam" in name else {})}
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (40, 1, 28, 28), dtype=np.uint8), rng.integers(0, 10, 40)
    digits = Dataset(x, y, x, y, 10, (0.5,), (0.25,))
    start = Trainer(replace(work({}, dataset=digits), model=ModelChoice("lenet5"))).initial()
    ours, theirs = (
        trained(replace(work(settings, dataset=digits), model=ModelChoice("lenet5", {}, kernel)), STEPS, 0.01) - start
        for kernel in ("native", "torch")
    )
    assert gap(ours, theirs) < 1e-4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"optimizer": "adam", "momentum": 0.5},
            "`training.momentum` is a setting of 'momentum' and 'nesterov', and `training.optimizer` is 'adam'.",
        ),
        ({"beta2": 0.9}, "`training.beta2` is a setting of 'adam' and 'adamw', and `training.optimizer` is 'sgd'."),
        ({"optimizer": "nesterov", "epsilon": 0.1}, "`training.epsilon` is a setting of 'adam' and 'adamw'"),
        ({"optimizer": "lion"}, "`training.optimizer` must be 'sgd', 'momentum', 'nesterov', 'adam' or 'adamw'"),
        ({"clip_norm": 0.0}, "`training.clip_norm` must be greater than 0"),
        ({"weight_decay": inf}, "`training.weight_decay` must be a finite number"),
        ({"optimizer": "momentum", "momentum": 1.0}, "`training.momentum` must be less than 1"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        load({"training": settings})
    assert said in str(refused.value)


def test_a_bound_that_is_infinite_by_default_may_be_written_down() -> None:
    assert load({"training": {"clip_norm": inf}}).training == Training()
    whole = load({"training": {"optimizer": "adam", "beta1": 0.8}})
    assert load(dict(whole.tables)).training == whole.training


def test_any_number_of_workers_gives_the_same_bits(tmp_path: Path) -> None:
    """With so many parameters that torch would sum a norm on several threads if it were let."""
    settings = {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.01, "clip_norm": 0.5, "schedule": "cosine"}
    ways: list[dict[str, Any]] = [
        {"executor": "inline"},
        *({"executor": {"name": "processes", "workers": number}} for number in (1, 2)),
    ]
    changes: dict[str, Any] = {"training": {**settings, "steps": 5}, "model.hidden": 600, "run.virtual_days": 0.1}
    results = [afbs.run(tiny.TINY, folder=tmp_path / str(place), **way, **changes) for place, way in enumerate(ways)]
    assert len(results[0].params) > 40_000
    assert len({result.params.tobytes() for result in results}) == 1
    assert results[0].best > 0.5


@pytest.mark.parametrize("optimizer", ["momentum", "nesterov"])
def test_momentum_that_is_remembered_goes_on_in_the_next_job(optimizer: str) -> None:
    """Batches are all samples, so three steps and then two are five of torch's, whatever the order of samples."""
    given = work({"optimizer": optimizer, "remember": True, "batch_size": 10})
    trainer = Trainer(replace(given, ships="end"))
    base = trainer.initial()
    state, learned, end = (np.zeros_like(base) for _ in range(3))
    for number, steps in enumerate((3, 2)):
        trainer.train(0, Order(CLIENT, 0, number, number, 0.0, 0.05, steps=steps), base, end, state, learned)
        base, state = end.copy(), learned.copy()
    module = copy.deepcopy(Trainer(given)._model.module)
    for parameter in module.parameters():
        parameter.data, parameter.grad = parameter.data.clone(), None
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    sgd = torch.optim.SGD(learning, lr=0.05, momentum=0.9, nesterov=optimizer == "nesterov")
    mine = given.indices[CLIENT]
    x, y = torch.from_numpy(given.dataset.train_x[mine]), torch.from_numpy(given.dataset.train_y[mine])
    for _ in range(5):
        sgd.zero_grad()
        cross_entropy(module(x), y).backward()
        sgd.step()
    expected = torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()
    assert gap(end, expected) < 1e-6


def test_clients_that_remember_their_momentum_run_resume_and_are_refused_where_they_cannot(tmp_path: Path) -> None:
    tables = {**tiny.TINY, "training": {"lr": 0.05, "optimizer": "momentum", "remember": True}}
    runs = [
        afbs.run(tables, folder=tmp_path / name, progress=False, **changes)
        for name, changes in (
            ("one", {}),
            ("two", {"executor": {"name": "processes", "workers": 2}}),
            ("anew", {"training.remember": False}),
        )
    ]
    assert runs[0].params.tobytes() == runs[1].params.tobytes() != runs[2].params.tobytes()

    def stop(state: Any) -> None:
        if state.version >= 3:
            raise KeyboardInterrupt

    with pytest.raises(afbs.Interrupted):
        afbs.run(tables, folder=tmp_path / "part", progress=False, on_progress=stop)
    assert afbs.resume(tmp_path / "part", progress=False).params.tobytes() == runs[0].params.tobytes()
    for changes, message in (
        ({"algorithm": {"name": "feddyn"}}, "not with what the algorithm has clients remember"),
        ({"training.optimizer": "adam"}, "`training.remember` is a setting of 'momentum' and 'nesterov'"),
    ):
        with pytest.raises(UserError, match=message):
            afbs.run(tables, folder=tmp_path / "never", progress=False, **changes)
