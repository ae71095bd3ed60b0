"""The gradient of a batch's loss: by torch for every task and network, by a native kernel where there is one.

Both leave it where `FlatModel.sgd` finds it. What is made of it (a rule's term, an optimizer's step) is not theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from afbs.clients.flatten import FlatModel
from afbs.clients.samples import Samples
from afbs.interfaces import Task
from afbs.types import ClientId

EVALUATION_BATCH = 500
Probe: TypeAlias = tuple[Callable[[Any], Tensor], Any, Tensor]
"""What gives the outputs for some samples, the samples in the form that it takes, and their labels."""


class Gradient(ABC):
    """One for a `Trainer`, used for every job. The network's parameters are read anew for each batch."""

    @abstractmethod
    def begin(self, client: ClientId) -> int:
        """A job of this client's: how many samples it has."""

    @abstractmethod
    def batches(self, order: NDArray[np.int64], sizes: Sequence[int]) -> Iterable[Any]:
        """The client's samples in this order, in batches of these sizes; each is for `of`."""

    @abstractmethod
    def of(self, batch: Any) -> None:
        """Leaves the gradient of the mean loss over the batch in the model."""

    @abstractmethod
    def test(self, part: int) -> Iterator[Probe]:
        """One part of the test set, some samples at a time."""

    @abstractmethod
    def held(self, client: ClientId) -> Iterator[Probe]:
        """What a client holds out, some samples at a time."""


@final
class Torch(Gradient):
    """Forward and backward as torch does them; forward in a lower `precision` where that is asked for."""

    def __init__(self, model: FlatModel, samples: Samples, task: Task, precision: str, device: str):
        self._model = model
        self._source = samples
        self._task = task
        self._mixed = None if precision == "float32" else (device.partition(":")[0], getattr(torch, precision))

    def begin(self, client: ClientId) -> int:
        self._samples, self._labels = self._source.client(client)
        self._model.module.train()
        return len(self._labels)

    def batches(self, order: NDArray[np.int64], sizes: Sequence[int]) -> Iterable[tuple[Tensor, Tensor]]:
        chosen = torch.from_numpy(order).to(self._labels.device)
        shuffled, targets = self._samples[chosen], self._labels[chosen]
        return zip(torch.split(shuffled, list(sizes)), torch.split(targets, list(sizes)), strict=True)

    def of(self, batch: tuple[Tensor, Tensor]) -> None:
        samples, labels = batch
        try:
            if self._mixed is None:
                loss = self._task.loss(self._model.module, samples, labels)
            else:
                with torch.autocast(*self._mixed):
                    loss = self._task.loss(self._model.module, samples, labels)
        except Exception as error:
            error.add_note(f"This was in `task`: {type(self._task).__name__}.loss, of {len(samples)} samples.")
            raise
        self._model.backward(loss)

    def test(self, part: int) -> Iterator[Probe]:
        return self._probes(*self._source.test(part))

    def held(self, client: ClientId) -> Iterator[Probe]:
        return self._probes(*self._source.train(self._source.held(client)))

    def _probes(self, samples: Tensor, labels: Tensor) -> Iterator[Probe]:
        self._model.module.eval()
        batches = zip(torch.split(samples, EVALUATION_BATCH), torch.split(labels, EVALUATION_BATCH), strict=True)
        return ((self._model.module, x, y) for x, y in batches)
