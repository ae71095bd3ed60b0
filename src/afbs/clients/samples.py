"""A client's samples as its model wants them."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from afbs.clients.workload import EVALUATION_PART, Workload
from afbs.types import ClientId


@final
class Samples:
    """On a CPU, reads from memory-mapped arrays what a job needs, and no more; another device is given all of it."""

    def __init__(self, workload: Workload):
        self._data = workload.dataset
        self._device = workload.device
        self._resident = (
            None if self._device == "cpu" else torch.from_numpy(np.array(self._data.train_x)).to(self._device)
        )
        self._indices = workload.indices
        channels = (1, -1) + (1,) * (self._data.train_x.ndim - 2)
        unit = 255.0 if self._data.train_x.dtype == np.uint8 else 1.0
        scale = torch.tensor(self._data.scale, dtype=torch.float32)
        self._factor = (1.0 / (unit * scale)).view(channels).to(self._device)
        self._offset = (-torch.tensor(self._data.shift, dtype=torch.float32) / scale).view(channels).to(self._device)

    def client(self, client: ClientId) -> tuple[Tensor, Tensor]:
        """A client's training samples and their labels."""
        chosen = self._indices[client]
        if self._resident is None:
            samples = torch.from_numpy(self._data.train_x[chosen])
        else:
            samples = self._resident[torch.from_numpy(chosen).to(self._device)]
        return self._prepared(samples), torch.from_numpy(self._data.train_y[chosen]).to(self._device)

    def test(self, part: int) -> tuple[Tensor, Tensor]:
        """One part of the test set and its labels."""
        chosen = slice(part * EVALUATION_PART, (part + 1) * EVALUATION_PART)
        samples = torch.from_numpy(np.array(self._data.test_x[chosen])).to(self._device)
        return self._prepared(samples), torch.from_numpy(np.array(self._data.test_y[chosen]))

    def _prepared(self, samples: Tensor) -> Tensor:
        if self._data.tokens:
            return samples.long()
        return samples.float().mul_(self._factor).add_(self._offset)
