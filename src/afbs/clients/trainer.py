"""Local training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, Literal, final

import numpy as np
import torch
from torch import Tensor

from afbs.clients.batches import batches, names_small_batches, steps_of
from afbs.clients.build import build
from afbs.clients.flatten import FlatModel
from afbs.clients.gradient import Gradient, Probe, Torch
from afbs.clients.lenet5 import NativeLenet5
from afbs.clients.optimizers import descent, scheduled
from afbs.clients.own import Lesson, taught
from afbs.clients.pull import Pull
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.native.choice import is_lenet5, settled
from afbs.nn.conv_pool_relu import native_layers
from afbs.seeds import Key
from afbs.types import Evaluate, Evaluated, Order, Shipped, Tallies, Train, Vector


@final
class Trainer:
    """One model, reused for every job. What a job computes depends on its arguments and the workload alone."""

    def __init__(self, workload: Workload):
        self._work = workload
        torch.manual_seed(Key.root(workload.seed, "model").integer())
        self._model = FlatModel(build(workload.model, workload.dataset, workload.task).to(workload.device))
        self._samples = Samples(workload)
        self._gradient = _gradient(workload, self._model, self._samples)
        self._jobs = Key.root(workload.seed, "job")
        self._exams = Key.root(workload.seed, "evaluation")

    def initial(self) -> Vector:
        vector: Vector = self._model.vector.cpu().numpy().copy()
        return vector

    def do(self, task: Train | Evaluate, rows: Sequence[Vector]) -> Shipped | Evaluated:
        """A task with its rows: the version it starts from; to train, also where the result goes, and, if clients have
        a memory, the client's old and new state."""
        if isinstance(task, Evaluate):
            return self.evaluate(task.task, rows[0], task.part, task.local)
        return self.train(task.task, task.order, *rows)

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
        if training.function:
            return self._taught(began, task, order, base, out, key.integer())
        number = self._gradient.begin(order.client)
        start = torch.from_numpy(base).to(device)
        memory = None if state is None else torch.from_numpy(state).to(device)[: len(model.trainable)]
        model.load(start)
        params, anchor = model.trainable, start[: len(model.trainable)]
        steps = seen = 0
        sizes = batches(number, training)
        most = steps_of(order, training, number)
        velocity = memory.clone() if training.remember and memory is not None else None
        pull = None if rule.gradient(params, anchor, memory) is None else Pull(rule, anchor, memory)
        descend = descent(training, model, pull, velocity)
        while steps < most:
            chosen = sizes[: most - steps]
            shuffled = rng.permutation(number)[: sum(chosen)]
            for step, batch in enumerate(self._gradient.batches(shuffled, chosen), steps):
                self._gradient.of(batch)
                descend(scheduled(training, order.rate, step, most))
            steps += len(chosen)
            seen += len(shuffled)
        self._ship(base, model.vector, out)
        if new_state is not None:
            new_state[:] = 0.0
            learned = rule.finish(memory, anchor, params) if velocity is None else velocity
            new_state[: len(params)] = learned.cpu().numpy()
        return Shipped(task, _outcome(out), steps, seen, perf_counter() - began)

    def _taught(self, began: float, task: int, order: Order, base: Vector, out: Vector, seed: int) -> Shipped:
        """With the user's function in the place of all of that."""
        training = self._work.training
        self._model.load(torch.from_numpy(base).to(self._work.device))
        steps = order.steps or (0 if order.epochs else training.steps)
        epochs = 0 if steps else order.epochs or training.epochs
        lesson = Lesson(order.rate, epochs, steps, training.batch_size, seed, order.client, order.version)
        x, y = self._samples.client(order.client)
        assert callable(training.function)
        found = taught(training.function, self._model.module, x, y, lesson)
        self._ship(base, found.end, out)
        return Shipped(task, _outcome(out), found.steps, found.samples, perf_counter() - began, told=found.told)

    def _ship(self, base: Vector, end: Tensor, out: Vector) -> None:
        if self._work.ships == "delta":
            np.subtract(base, end.cpu().numpy(), out=out)
        else:
            np.copyto(out, end.cpu().numpy())

    def evaluate(self, task: int, base: Vector, part: int, local: bool = False) -> Evaluated:
        """The model on one part of the test set; if `local`, on what each of some clients holds out."""
        began = perf_counter()
        self._model.load(torch.from_numpy(base))
        _seed(self._exams.child(part).integer(), self._work.device)  # a task may draw, too
        with torch.inference_mode():
            totals = self._clients(part) if local else self._counted(self._gradient.test(part))
        return Evaluated(task, totals, perf_counter() - began)

    def _counted(self, probes: Iterable[Probe]) -> Tallies:
        totals: dict[str, Any] = {}
        task = self._work.task
        for model, x, y in probes:
            try:
                tallies = task.tally(model, x, y)
            except Exception as error:
                error.add_note(f"This was in `task`: {type(task).__name__}.measure, of {len(x)} samples.")
                raise
            for name, found in tallies.items():
                totals[name] = totals[name] + found if name in totals else found
        return totals

    def _clients(self, part: int) -> Tallies:
        """What is measured of each client, in the order of their numbers."""
        clients = self._work.clients_of(part)
        scores = [self._work.task.conclude(self._counted(self._gradient.held(client))).values for client in clients]
        names = [metric.name for metric in self._work.task.metrics]
        return {name: np.array([score[name] for score in scores], np.float64) for name in names}


def _outcome(out: Vector) -> Literal["done", "not finite"]:
    return "done" if np.isfinite(out).all() else "not finite"


def _gradient(work: Workload, model: FlatModel, samples: Samples) -> Gradient:
    layers = native_layers(model.module)
    native = settled(work.model, work.device, work.usual, lambda: bool(layers)).kernel == "native"
    if native and is_lenet5(work.model):
        return NativeLenet5(model, samples, tuple(work.dataset.train_x.shape[1:]), work.dataset.classes)
    for layer in layers:
        layer.native = native
    return Torch(model, samples, work.task, work.training.precision, work.device)


def _seed(seed: int, device: str) -> None:
    """For dropout and its like. `torch.manual_seed` also looks for accelerators, and costs a millisecond a job."""
    if device == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
