"""A client's samples as its model wants them."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from afbs.clients.workload import EVALUATION_PART, Workload
from afbs.types import ClientId


@final
class Samples:
    """Reads from memory-mapped arrays what a job needs, and no more."""

    def __init__(self, workload: Workload):
        self._data = workload.dataset
        self._indices = workload.indices
        channels = (1, -1) + (1,) * (self._data.train_x.ndim - 2)
        unit = 255.0 if self._data.train_x.dtype == np.uint8 else 1.0
        scale = torch.tensor(self._data.scale, dtype=torch.float32)
        self._factor = (1.0 / (unit * scale)).view(channels)
        self._offset = (-torch.tensor(self._data.shift, dtype=torch.float32) / scale).view(channels)

    def client(self, client: ClientId) -> tuple[Tensor, Tensor]:
        """A client's training samples and their labels."""
        chosen = self._indices[client]
        return self._prepared(self._data.train_x[chosen]), torch.from_numpy(self._data.train_y[chosen])

    def test(self, part: int) -> tuple[Tensor, Tensor]:
        """One part of the test set and its labels."""
        chosen = slice(part * EVALUATION_PART, (part + 1) * EVALUATION_PART)
        labels = torch.from_numpy(np.array(self._data.test_y[chosen]))
        return self._prepared(np.array(self._data.test_x[chosen])), labels

    def _prepared(self, x: NDArray[np.generic]) -> Tensor:
        tensor = torch.from_numpy(x)
        if self._data.tokens:
            return tensor.long()
        return tensor.float().mul_(self._factor).add_(self._offset)
