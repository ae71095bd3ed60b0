"""Where samples come from, and how they are spread."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from afbs.seeds import Key
from afbs.types import Dataset, Split


class Source(ABC):
    """A data set that can be loaded. A frozen dataclass of its settings."""

    @abstractmethod
    def load(self) -> Dataset: ...


class Partition(ABC):
    """How the training samples are spread over the clients. A frozen dataclass of its settings."""

    @abstractmethod
    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split: ...
