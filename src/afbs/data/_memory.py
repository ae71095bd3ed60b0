"""Data that are already in memory: numpy arrays, or a torch Dataset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from afbs.data._columns import Column, column, numbers
from afbs.data._digest import array_digest
from afbs.data._own import dataset, samples
from afbs.data._store import cached
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_CALLED = {
    "train_x": "training samples",
    "train_y": "training labels",
    "test_x": "test samples",
    "test_y": "test labels",
    "owners": "owners",
}


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
    numbers: bool = False
    """Labels are numbers to be predicted, one or a row a sample, and not classes."""

    def load(self) -> Dataset:
        """By way of the cache, so that workers share one copy instead of each being sent its own."""
        samples = {name: self._samples(name) for name in ("train_x", "test_x")}
        columns = {name: self._column(name) for name in ("train_y", "test_y", "owners")}
        content = {name: _content(values) for name, values in (samples | columns).items()}
        recipe = {"tokens": self.tokens, "content": content, **({"numbers": True} if self.numbers else {})}
        arrays: Any = {**samples, **columns}
        made = partial(dataset, "`data`", **arrays, tokens=self.tokens, are_numbers=self.numbers)
        return cached("memory", recipe, made)

    def _samples(self, name: str) -> NDArray[Any] | None:
        values = getattr(self, name)
        return None if values is None else samples(f"`data`: {_CALLED[name]}", values)

    def _column(self, name: str) -> Column | NDArray[Any] | None:
        values = getattr(self, name)
        read = numbers if self.numbers and name != "owners" else column
        return None if values is None else read(f"`data`: {_CALLED[name]}", values)


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


def _content(values: NDArray[Any] | Column | None) -> list[Any] | None:
    """What decides whether two are the same."""
    if values is None:
        return None
    if isinstance(values, Column):
        return [array_digest(values.codes), values.names, values.ordered]
    return [array_digest(values), values.dtype.str, values.shape]
