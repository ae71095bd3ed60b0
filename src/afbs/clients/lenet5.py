"""LeNet-5's gradient by one call of a C function a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import byref
from itertools import accumulate
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from afbs.clients.flatten import FlatModel
from afbs.clients.gradient import EVALUATION_BATCH, Gradient, Probe
from afbs.clients.samples import Samples
from afbs.models.lenet5 import LeNet5
from afbs.native.library import Lenet5Shape, kernels
from afbs.types import ClientId, UserError


@final
class NativeLenet5(Gradient):
    """A job's samples are laid out once, as the kernel wants them; an epoch's order is only numbers."""

    def __init__(self, model: FlatModel, samples: Samples, shape: tuple[int, ...], classes: int):
        self._model = model
        self._source = samples
        self._kernels = kernels()
        channels, height, width = shape
        assert isinstance(model.module, LeNet5)
        self._shape = Lenet5Shape(channels, height, width, model.module.margin, classes)
        self._image = shape
        self._sample: int = self._kernels.lenet5_sample(byref(self._shape))
        self._room = torch.empty(self._kernels.lenet5_room(byref(self._shape)))
        self._laid = torch.empty(0, self._sample)
        self._wild = torch.empty(0, dtype=torch.uint8)

    def begin(self, client: ClientId) -> int:
        chosen = self._source.chosen(client)
        self._labels = np.ascontiguousarray(self._source.labels(chosen), np.int64)
        lowest, highest = (int(self._labels.min()), int(self._labels.max())) if len(chosen) else (0, 0)
        if lowest < 0 or highest >= self._shape.classes:
            raise UserError(f"`data`: labels must be 0 to {self._shape.classes - 1}, got {lowest} to {highest}.")
        if self._source.train_bytes is None:
            self._lay_out(self._source.train(chosen)[0])
        else:
            self._lay_out_bytes(self._source.train_bytes, chosen)
        return len(chosen)

    def batches(self, order: NDArray[np.int64], sizes: Sequence[int]) -> Iterable[NDArray[np.int64]]:
        ends = accumulate(sizes)
        return [order[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def of(self, batch: NDArray[np.int64]) -> None:
        self._kernels.lenet5_gradient(
            byref(self._shape),
            self._model.trainable.data_ptr(),
            self._laid.data_ptr(),
            self._wild.data_ptr(),
            self._labels.ctypes.data,
            batch.ctypes.data,
            len(batch),
            self._model.gradient.data_ptr(),
            self._room.data_ptr(),
        )

    def test(self, part: int) -> Iterator[Probe]:
        images, labels = self._source.test_bytes, self._source.test_labels(part)
        if images is None:
            return self._probes(self._score, self._source.test(part)[0], labels)
        places = self._source.test_start(part) + np.arange(len(labels))
        return self._probes(lambda chosen: self._score_bytes(images, chosen), places, labels)

    def held(self, client: ClientId) -> Iterator[Probe]:
        images, chosen = self._source.train_bytes, self._source.held(client)
        labels = torch.from_numpy(self._source.labels(chosen))
        if images is None:
            return self._probes(self._score, self._source.train(chosen)[0], labels)
        return self._probes(lambda some: self._score_bytes(images, some), chosen, labels)

    def _probes(self, score: Callable[[Any], Tensor], samples: Any, labels: Tensor) -> Iterator[Probe]:
        for first in range(0, len(labels), EVALUATION_BATCH):
            some = slice(first, first + EVALUATION_BATCH)
            yield score, samples[some], labels[some]

    def _score(self, samples: Tensor) -> Tensor:
        self._lay_out(samples)
        return self.predict(len(samples))

    def _score_bytes(self, images: NDArray[np.uint8], chosen: NDArray[np.int64]) -> Tensor:
        self._lay_out_bytes(images, chosen)
        return self.predict(len(chosen))

    def predict(self, n: int) -> Tensor:
        """The scores of the first samples that were laid out."""
        found = torch.empty(n, self._shape.classes)
        self._kernels.lenet5_scores(
            byref(self._shape),
            self._model.trainable.data_ptr(),
            self._laid.data_ptr(),
            n,
            found.data_ptr(),
            self._room.data_ptr(),
        )
        return found

    def _lay_out(self, samples: Tensor) -> None:
        samples = samples.contiguous()
        self._make_room(samples.shape)
        self._kernels.lenet5_lay_out(
            byref(self._shape), samples.data_ptr(), len(samples), self._laid.data_ptr(), self._wild.data_ptr()
        )

    def _lay_out_bytes(self, images: NDArray[np.uint8], chosen: NDArray[np.int64]) -> None:
        self._make_room((len(chosen), *images.shape[1:]))
        chosen = np.ascontiguousarray(chosen, np.int64)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(images):
            raise IndexError(f"samples {int(chosen.min())} to {int(chosen.max())} of {len(images)}")
        self._kernels.lenet5_lay_out_bytes(
            byref(self._shape),
            images.ctypes.data,
            chosen.ctypes.data,
            len(chosen),
            self._source.table.data_ptr(),
            self._laid.data_ptr(),
            self._wild.data_ptr(),
        )

    def _make_room(self, shape: tuple[int, ...]) -> None:
        if tuple(shape[1:]) != self._image:
            raise UserError(f"`data`: samples of shape {tuple(shape[1:])}, not {self._image}.")
        if shape[0] > len(self._laid):
            self._laid = torch.empty(shape[0], self._sample)
            self._wild = torch.empty(shape[0], dtype=torch.uint8)
