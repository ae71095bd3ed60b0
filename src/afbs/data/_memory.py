"""Data that are already in memory: numpy arrays, or a torch Dataset."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from afbs.data._own import dataset
from afbs.data._store import cached
from afbs.interfaces import Source
from afbs.types import Dataset, UserError


@final
@dataclass(frozen=True, eq=False)
class Arrays(Source):
    """Arrays of samples and labels; `owners` says whose each training sample is. See `docs/data.md` for what fits."""

    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any] | None = None
    test_y: NDArray[Any] | None = None
    owners: NDArray[Any] | None = None
    tokens: int = 0

    def load(self) -> Dataset:
        """By way of the cache, so that workers share one copy instead of each being sent its own."""
        parts = (self.train_x, self.train_y, self.test_x, self.test_y, self.owners)
        return cached("memory", {"tokens": self.tokens, "content": _fingerprint(parts)}, self._convert)

    def _convert(self) -> Dataset:
        return dataset(
            "`data`", self.train_x, self.train_y, self.test_x, self.test_y, owners=self.owners, tokens=self.tokens
        )


def from_torch(train: Any, test: Any = None, owners: NDArray[Any] | None = None) -> Arrays:
    """Read a torch Dataset of (sample, label) pairs once, in order. Its transforms are applied: random ones freeze."""
    train_x, train_y = _materialised(train)
    test_x, test_y = (None, None) if test is None else _materialised(test)
    return Arrays(train_x, train_y, test_x, test_y, owners)


def _materialised(pairs: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if not hasattr(pairs, "__len__") or not hasattr(pairs, "__getitem__"):
        raise UserError(f"`data`: a {type(pairs).__name__} has no length or no items; expected a map-style Dataset.")
    samples: list[NDArray[Any]] = []
    labels = []
    for number in range(len(pairs)):
        item = pairs[number]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UserError(f"`data`: item {number} is a {type(item).__name__}, expected a pair of sample and label.")
        sample = np.asarray(item[0])
        if samples and sample.shape != samples[0].shape:
            raise UserError(f"`data`: sample {number} has shape {sample.shape}, sample 0 has {samples[0].shape}.")
        samples.append(sample)
        labels.append(np.asarray(item[1]).item())
    if not samples:
        raise UserError("`data`: the Dataset is empty.")
    return np.stack(samples), np.array(labels)


def _fingerprint(arrays: tuple[NDArray[Any] | None, ...]) -> str:
    digest = blake2b(digest_size=16)
    for array in arrays:
        values = np.asarray(()) if array is None else np.ascontiguousarray(array)
        digest.update(f"{values.dtype}{values.shape}{array is None}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
