"""Training with a function of the user's own: it is given the network and the samples, and changes the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor, nn

from afbs.clients.build import build
from afbs.clients.flatten import FlatModel
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.seeds import Key
from afbs.types import Order, Shipped, UserError, Vector


@dataclass(frozen=True)
class Lesson:
    """How much to train, and how: `steps` is 0 where `epochs` counts. `seed` is this job's own."""

    rate: float
    epochs: int
    steps: int
    batch_size: int
    seed: int


Teach: TypeAlias = Callable[[nn.Module, Tensor, Tensor, Lesson], Mapping[str, int] | None]
"""Trains the module on samples and labels. It may return how many `steps` and `samples` that were."""


@final
class OwnTrainer:
    """Does orders as `clients.trainer.Trainer` does, with the user's function in place of plain SGD."""

    def __init__(self, workload: Workload, teach: Teach):
        if workload.rule.stateful:
            raise UserError("`algorithm`: its clients add to the gradient, which a train function of one's own cannot.")
        self._work = workload
        self._teach = teach
        torch.manual_seed(Key.root(workload.seed, "model").integer())
        self._model = FlatModel(build(workload.model, workload.dataset).to(workload.device))
        self._samples = Samples(workload)

    def train(
        self, task: int, order: Order, base: Vector, out: Vector, state: Vector | None, new_state: Vector | None
    ) -> Shipped:
        began = perf_counter()
        training = self._work.training
        seed = Key.root(self._work.seed, "job").child(order.client, order.occurrence).integer()
        torch.manual_seed(seed)
        model = self._model
        model.load(torch.from_numpy(base).to(self._work.device))
        model.module.train()
        samples, labels = self._samples.client(order.client)
        lesson = Lesson(order.rate, order.epochs or training.epochs, order.steps, training.batch_size, seed)
        told: Any = self._teach(model.module, samples, labels, lesson) or {}
        end = torch.cat([each.detach().reshape(-1).float().cpu() for each in _tensors(model.module)]).numpy()
        np.copyto(out, base - end if self._work.ships == "delta" else end)
        outcome: Literal["done", "not finite"] = "done" if np.isfinite(out).all() else "not finite"
        return Shipped(task, outcome, int(told.get("steps", 0)), int(told.get("samples", 0)), perf_counter() - began)


def _tensors(module: nn.Module) -> list[Tensor]:
    """In the order of the flat vector; a function may have put others in the place of those that were there."""
    return [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]
