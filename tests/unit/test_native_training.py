"""Whole jobs with the native kernel: as near the truth as torch's, and always the same bits."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import afbs
from afbs.clients.samples import Samples
from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.core.local import Dynamic, Proximal
from afbs.interfaces import LocalRule, Plain
from afbs.types import Dataset, ModelChoice, Order, Training, Vector
from kernels import needs_kernels

pytestmark = needs_kernels

NATIVE = ModelChoice("lenet5", {}, "native")
CHANNELS_LAST = ModelChoice("lenet5")
CONTIGUOUS = ModelChoice("lenet5", {"memory_format": "contiguous"})
SIZES = (3, 17, 40, 64, 70, 90, 130)
LR = 0.05


def images(shape: tuple[int, ...]) -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (sum(SIZES), *shape), dtype=np.uint8), rng.integers(0, 10, sum(SIZES))
    return Dataset(x, y, x[:600], y[:600], 10, (0.5,) * shape[0], (0.25,) * shape[0])


def trainer(model: ModelChoice, shape: tuple[int, ...] = (3, 32, 32), rule: LocalRule | None = None) -> Trainer:
    torch.set_num_threads(1)
    ends = np.cumsum(SIZES)
    clients = [np.arange(end - size, end) for size, end in zip(SIZES, ends, strict=True)]
    return Trainer(Workload(images(shape), clients, model, Training(), rule or Plain(), "delta", seed=1))


def job(trained: Trainer, client: int, state: Vector | None = None) -> Vector:
    base = trainer(CHANNELS_LAST, trained._work.dataset.train_x.shape[1:]).initial()
    out = np.empty_like(base)
    trained.train(0, Order(client, 0, 0, 0, 0.0, LR), base, out, state, None if state is None else np.empty_like(base))
    return out


def exact(trained: Trainer, client: int) -> Vector:
    """The same job in double precision, step by step."""
    module = copy.deepcopy(trainer(CONTIGUOUS)._model.module).double()
    module.zero_grad(set_to_none=True)
    start = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    rng = trained._jobs.child(client, 0).generator()
    samples, labels = Samples(trained._work).client(client)
    for _ in range(Training().epochs):
        for chosen in torch.split(torch.from_numpy(rng.permutation(len(labels))), Training().batch_size):
            loss = cross_entropy(module(samples[chosen].double()), labels[chosen])
            for parameter, gradient in zip(
                module.parameters(), torch.autograd.grad(loss, list(module.parameters())), strict=True
            ):
                parameter.data.sub_(LR * gradient)
    return (start - torch.cat([parameter.detach().flatten() for parameter in module.parameters()])).numpy()


def test_jobs_are_as_near_the_truth_as_torchs_and_about_as_near_to_torch_as_its_memory_formats_to_each_other() -> None:
    """The two formats share their dense layers to the bit, which is why they are somewhat nearer to each other."""
    ours, first, second = (trainer(model) for model in (NATIVE, CHANNELS_LAST, CONTIGUOUS))
    found = []
    for client in range(len(SIZES)):
        truth, mine, theirs, others = exact(ours, client), *(job(one, client) for one in (ours, first, second))
        gaps = (mine - truth, theirs - truth, mine - theirs, others - theirs)
        found.append([np.linalg.norm(gap) / np.linalg.norm(truth) for gap in gaps])
    error, torchs_error, away, formats = np.median(found, axis=0)
    assert error <= 1.02 * torchs_error < 1e-4
    assert 1e-8 < away <= 2 * formats


@pytest.mark.parametrize("rule", [Proximal(0.5), Dynamic(0.1)], ids=["proximal", "dynamic"])
def test_rules_around_the_gradient_work_the_same(rule: LocalRule) -> None:
    state = np.random.default_rng(2).normal(0, 1e-3, len(trainer(NATIVE).initial())).astype(np.float32)
    ours, theirs = (job(trainer(model, rule=rule), 3, state) for model in (NATIVE, CHANNELS_LAST))
    plain = job(trainer(NATIVE), 3)
    assert np.linalg.norm(ours - theirs) < 1e-4 * np.linalg.norm(theirs)
    assert np.linalg.norm(ours - plain) > 1e-3 * np.linalg.norm(theirs)


def test_a_job_gives_the_same_bits_whatever_was_trained_before() -> None:
    fresh, used = trainer(NATIVE), trainer(NATIVE)
    for client in (6, 0, 2):
        job(used, client)
    used.evaluate(0, used.initial(), 0)
    assert job(fresh, 4).tobytes() == job(used, 4).tobytes()


def test_evaluation_agrees_with_torch() -> None:
    ours, theirs = trainer(NATIVE), trainer(CHANNELS_LAST)
    found, expected = (one.evaluate(0, theirs.initial(), 0) for one in (ours, theirs))
    assert found.totals["loss"] == pytest.approx(expected.totals["loss"], rel=1e-6)
    assert (found.totals["confusion"] == expected.totals["confusion"]).all()


def test_any_number_of_workers_gives_the_same_bits(tmp_path: Path) -> None:
    tables = {
        "data": {"name": "mnist5k"},
        "model": {"name": "lenet5", "kernel": "native"},
        "partition": {"clients": 20, "clusters": 2},
        "clusters": {"number": 2},
        "run": {"virtual_days": 0.03, "in_flight": 12},
        "evaluation": {"points": 2},
    }
    ways: list[dict[str, Any]] = [{"executor": "inline"}, {"executor.workers": 1}, {"executor.workers": 3}]
    models = [
        afbs.run(tables, folder=tmp_path / str(number), **way).params.tobytes() for number, way in enumerate(ways)
    ]
    assert models[0] == models[1] == models[2]
