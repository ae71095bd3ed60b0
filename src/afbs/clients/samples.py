"""A client's samples as its model wants them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from afbs.clients.workload import EVALUATION_PART, Workload
from afbs.types import ClientId, Dataset


@final
class Samples:
    """On a CPU, reads from memory-mapped arrays what a job needs, and no more; another device is given all of it.

    Images of bytes can also be had as they are, with a table that says what each byte of each channel stands for.
    """

    def __init__(self, workload: Workload):
        self._data = workload.dataset
        self._device = workload.device
        self._resident = (
            None if self._device == "cpu" else torch.from_numpy(np.array(self._data.train_x)).to(self._device)
        )
        self._indices = workload.indices
        self._held = workload.held
        self._factor, self._offset = (each.to(self._device) for each in standard(self._data))
        self.train_bytes, self.test_bytes = _bytes(self._data.train_x), _bytes(self._data.test_x)

    @cached_property
    def table(self) -> Tensor:
        """What a byte of a channel stands for: (channels, 256)."""
        every = torch.arange(256, dtype=torch.uint8).expand(1, self._data.train_x.shape[1], 1, 256)
        return self._prepared(every)[0, :, 0].contiguous()

    def chosen(self, client: ClientId) -> NDArray[np.int64]:
        """Which training samples are a client's."""
        return self._indices[client]

    def held(self, client: ClientId) -> NDArray[np.int64]:
        """Which training samples a client keeps for testing."""
        return self._held[client]

    def labels(self, chosen: NDArray[np.int64]) -> NDArray[Any]:
        found: NDArray[Any] = self._data.train_y[chosen]
        return found

    def client(self, client: ClientId) -> tuple[Tensor, Tensor]:
        """What a client trains on, and the labels."""
        return self.train(self._indices[client])

    def train(self, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Some training samples and their labels."""
        if self._resident is None:
            samples = torch.from_numpy(self._data.train_x[chosen])
        else:
            samples = self._resident[torch.from_numpy(chosen).to(self._device)]
        return self._prepared(samples), torch.from_numpy(self._data.train_y[chosen]).to(self._device)

    def test(self, part: int) -> tuple[Tensor, Tensor]:
        """One part of the test set and its labels."""
        chosen = slice(self.test_start(part), self.test_start(part + 1))
        samples = torch.from_numpy(np.array(self._data.test_x[chosen])).to(self._device)
        return self._prepared(samples), self.test_labels(part).to(self._device)

    def test_start(self, part: int) -> int:
        """The number of the first sample of one part of the test set."""
        return part * EVALUATION_PART

    def test_labels(self, part: int) -> Tensor:
        return torch.from_numpy(np.array(self._data.test_y[self.test_start(part) : self.test_start(part + 1)]))

    def _prepared(self, samples: Tensor) -> Tensor:
        if self._data.tokens:
            return samples.long()
        return samples.float().mul_(self._factor).add_(self._offset)


def standard(data: Dataset) -> tuple[Tensor, Tensor]:
    """By what a sample is multiplied, and what is then added to it, channel by channel, before a network sees it."""
    channels = (1, -1) + (1,) * (data.train_x.ndim - 2)
    unit = 255.0 if data.train_x.dtype == np.uint8 else 1.0
    scale = torch.tensor(data.scale, dtype=torch.float32)
    offset = -torch.tensor(data.shift, dtype=torch.float32) / scale
    return (1.0 / (unit * scale)).view(channels), offset.view(channels)


def _bytes(samples: NDArray[Any]) -> NDArray[np.uint8] | None:
    """The same, if it is images of bytes that a kernel can read where they are."""
    return samples if samples.dtype == np.uint8 and samples.ndim == 4 and samples.flags.c_contiguous else None
