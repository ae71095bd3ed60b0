"""The gradient of a batch's mean cross-entropy: by torch for every network, by a native kernel for those that have one.

Both leave it where `FlatModel.descend` finds it. What is made of it (a rule's term, an optimizer's step) is not theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from ctypes import byref
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from afbs.clients.flatten import FlatModel
from afbs.native.library import Lenet5Shape, kernels
from afbs.types import UserError


class Gradient(ABC):
    """One for a `Trainer`, used for every job. The network's parameters are read anew for each batch."""

    @abstractmethod
    def begin(self, samples: Tensor, labels: Tensor) -> None:
        """Another job: all of its samples."""

    @abstractmethod
    def batches(self, order: NDArray[np.int64], size: int) -> Iterable[Any]:
        """The samples in this order, `size` at a time; each is for `of`."""

    @abstractmethod
    def of(self, batch: Any) -> None:
        """Leaves the gradient of the mean cross-entropy over the batch in the model."""

    @abstractmethod
    def scores(self, samples: Tensor) -> Tensor:
        """Of each class, for each of some samples, when the network is not being trained. On the CPU."""


@final
class Torch(Gradient):
    """Forward and backward as torch does them."""

    def __init__(self, model: FlatModel):
        self._model = model

    def begin(self, samples: Tensor, labels: Tensor) -> None:
        self._samples, self._labels = samples, labels
        self._model.module.train()

    def batches(self, order: NDArray[np.int64], size: int) -> Iterable[tuple[Tensor, Tensor]]:
        chosen = torch.from_numpy(order).to(self._labels.device)
        shuffled, targets = self._samples[chosen], self._labels[chosen]
        return zip(torch.split(shuffled, size), torch.split(targets, size), strict=True)

    def of(self, batch: tuple[Tensor, Tensor]) -> None:
        samples, labels = batch
        self._model.backward(cross_entropy(self._model.module(samples), labels))

    def scores(self, samples: Tensor) -> Tensor:
        self._model.module.eval()
        with torch.inference_mode():
            found: Tensor = self._model.module(samples).cpu()
        return found


@final
class NativeLenet5(Gradient):
    """LeNet-5 by one call of a C function a batch. A job's samples are laid out once."""

    def __init__(self, model: FlatModel, shape: tuple[int, ...], classes: int):
        self._model = model
        self._kernels = kernels()
        channels, height, width = shape
        margin = 2 if min(height, width) < 32 else 0
        self._shape = Lenet5Shape(channels, height, width, margin, classes)
        self._image = shape
        self._sample = self._kernels.lenet5_sample(byref(self._shape))
        self._room = torch.empty(self._kernels.lenet5_room(byref(self._shape)))

    def begin(self, samples: Tensor, labels: Tensor) -> None:
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self._shape.classes:
            raise UserError(
                f"`data`: labels must be 0 to {self._shape.classes - 1}, "
                f"got {int(labels.min())} to {int(labels.max())}."
            )
        self._labels = labels.contiguous()
        self._laid, self._wild = self._lay_out(samples)

    def batches(self, order: NDArray[np.int64], size: int) -> Iterable[NDArray[np.int64]]:
        return [order[first : first + size] for first in range(0, len(order), size)]

    def of(self, batch: NDArray[np.int64]) -> None:
        self._kernels.lenet5_gradient(
            byref(self._shape),
            self._model.trainable.data_ptr(),
            self._laid.data_ptr(),
            self._wild.data_ptr(),
            self._labels.data_ptr(),
            batch.ctypes.data,
            len(batch),
            self._model.gradient.data_ptr(),
            self._room.data_ptr(),
        )

    def scores(self, samples: Tensor) -> Tensor:
        laid, _ = self._lay_out(samples)
        found = torch.empty(len(samples), self._shape.classes)
        self._kernels.lenet5_scores(
            byref(self._shape),
            self._model.trainable.data_ptr(),
            laid.data_ptr(),
            len(samples),
            found.data_ptr(),
            self._room.data_ptr(),
        )
        return found

    def _lay_out(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        samples = samples.contiguous()
        if samples.shape[1:] != self._image:
            raise UserError(f"`data`: samples of shape {tuple(samples.shape[1:])}, not {self._image}.")
        laid = torch.empty(len(samples), self._sample)
        wild = torch.empty(len(samples), dtype=torch.uint8)
        self._kernels.lenet5_lay_out(
            byref(self._shape), samples.data_ptr(), len(samples), laid.data_ptr(), wild.data_ptr()
        )
        return laid, wild
