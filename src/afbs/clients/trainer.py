"""Local training and evaluation."""

from __future__ import annotations

from time import perf_counter
from typing import Literal, final

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from afbs.clients.batches import batches, names_small_batches
from afbs.clients.build import build
from afbs.clients.flatten import FlatModel
from afbs.clients.gradient import Gradient, Torch
from afbs.clients.lenet5 import NativeLenet5
from afbs.clients.optimizers import descent, scheduled
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.native.choice import settled
from afbs.seeds import Key
from afbs.types import Evaluated, Order, Shipped, Training, Vector


@final
class Trainer:
    """One model, reused for every job. What a job computes depends on its arguments and the workload alone."""

    def __init__(self, workload: Workload):
        self._work = workload
        torch.manual_seed(Key.root(workload.seed, "model").integer())
        self._model = FlatModel(build(workload.model, workload.dataset).to(workload.device))
        self._gradient = _gradient(workload, self._model)
        self._jobs = Key.root(workload.seed, "job")

    def initial(self) -> Vector:
        vector: Vector = self._model.vector.cpu().numpy().copy()
        return vector

    @names_small_batches
    def train(
        self,
        task: int,
        order: Order,
        base: Vector,
        out: Vector,
        state: Vector | None = None,
        new_state: Vector | None = None,
    ) -> Shipped:
        """From `base`, as many epochs or steps as the order or else `[training]` says.

        Each epoch is shuffled anew; the last batch may be smaller.
        """
        began = perf_counter()
        model, training, rule, device = self._model, self._work.training, self._work.rule, self._work.device
        key = self._jobs.child(order.client, order.occurrence)
        rng = key.generator()
        _seed(key.integer(), device)
        number = self._gradient.begin(order.client)
        start = torch.from_numpy(base).to(device)
        memory = None if state is None else torch.from_numpy(state).to(device)[: len(model.trainable)]
        model.load(start)
        params, anchor = model.trainable, start[: len(model.trainable)]
        steps = seen = 0
        sizes = batches(number, training)
        most = _steps(order, training, len(sizes))
        descend = descent(training, model)
        while steps < most:
            chosen = sizes[: most - steps]
            shuffled = rng.permutation(number)[: sum(chosen)]
            for step, batch in enumerate(self._gradient.batches(shuffled, chosen), steps):
                self._gradient.of(batch)
                rate = scheduled(training, order.rate, step, most)
                descend(rate, rule.gradient(params, anchor, memory))
            steps += len(chosen)
            seen += len(shuffled)
        end = model.vector.cpu().numpy()
        if self._work.ships == "delta":
            np.subtract(base, end, out=out)
        else:
            np.copyto(out, end)
        if new_state is not None:
            new_state[:] = 0.0
            new_state[: len(params)] = rule.finish(memory, anchor, params).cpu().numpy()
        outcome: Literal["done", "not finite"] = "done" if np.isfinite(out).all() else "not finite"
        return Shipped(task, outcome, steps, seen, perf_counter() - began)

    def evaluate(self, task: int, base: Vector, part: int) -> Evaluated:
        """The model on one part of the test set."""
        began = perf_counter()
        self._model.load(torch.from_numpy(base))
        classes = self._work.dataset.classes
        loss = 0.0
        confusion = torch.zeros(classes * classes, dtype=torch.int64)
        for scores, y in self._gradient.scores(part):
            loss += float(cross_entropy(scores, y, reduction="sum"))
            # A model that has diverged predicts class 0: argmax of NaN is not a class.
            guess = scores.nan_to_num().argmax(1).clamp_(max=classes - 1)
            confusion += torch.bincount(y * classes + guess, minlength=classes * classes)
        return Evaluated(task, confusion.view(classes, classes).numpy(), loss, perf_counter() - began)


def _steps(order: Order, training: Training, epoch: int) -> int:
    """How many steps a job has, if an epoch has so many. What the order says comes before what is usual."""
    usual = 0 if order.epochs else training.steps
    return order.steps or usual or (order.epochs or training.epochs) * epoch


def _gradient(work: Workload, model: FlatModel) -> Gradient:
    samples = Samples(work)
    if settled(work.model, work.device).kernel == "torch":
        return Torch(model, samples)
    return NativeLenet5(model, samples, tuple(work.dataset.train_x.shape[1:]), work.dataset.classes)


def _seed(seed: int, device: str) -> None:
    """For dropout and its like. `torch.manual_seed` also looks for accelerators, and costs a millisecond a job."""
    if device == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
