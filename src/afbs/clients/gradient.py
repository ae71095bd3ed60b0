"""The gradient of a batch's mean cross-entropy: by torch for every network, by a native kernel for those that have one.

Both leave it where `FlatModel.descend` finds it. What is made of it (a rule's term, an optimizer's step) is not theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from afbs.clients.flatten import FlatModel
from afbs.clients.samples import Samples
from afbs.types import ClientId

EVALUATION_BATCH = 500


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
        """Leaves the gradient of the mean cross-entropy over the batch in the model."""

    @abstractmethod
    def scores(self, part: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The scores of each class and the labels, on the CPU, for one part of the test set, some samples at a time."""


@final
class Torch(Gradient):
    """Forward and backward as torch does them."""

    def __init__(self, model: FlatModel, samples: Samples):
        self._model = model
        self._source = samples

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
        self._model.backward(cross_entropy(self._model.module(samples), labels))

    def scores(self, part: int) -> Iterator[tuple[Tensor, Tensor]]:
        self._model.module.eval()
        samples, labels = self._source.test(part)
        batches = zip(torch.split(samples, EVALUATION_BATCH), torch.split(labels, EVALUATION_BATCH), strict=True)
        for x, y in batches:
            yield self.predict(x), y

    def predict(self, samples: Tensor) -> Tensor:
        with torch.inference_mode():
            found: Tensor = self._model.module(samples).cpu()
        return found
