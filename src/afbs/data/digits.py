"""The 8 × 8 digits of the UCI repository, as shipped with scikit-learn. https://doi.org/10.24432/C50P49"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from afbs.data._about import About
from afbs.data._arrays import channel_moments, every_fifth
from afbs.data._store import cached
from afbs.interfaces import Source
from afbs.types import Dataset


@final
@dataclass(frozen=True)
class Digits(Source):
    """1,797 handwritten digits of 8 × 8 pixels; comes with the package."""

    about: ClassVar[About] = About(1442, 355, 10, "CC BY 4.0", "scikit-learn")

    def load(self) -> Dataset:
        return cached("digits", {}, _convert)


def _convert() -> Dataset:
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    images = pixels.astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = digits.astype(np.int64)
    train, test = every_fifth(labels)
    shift, scale = channel_moments(images[train])
    return Dataset(images[train], labels[train], images[test], labels[test], 10, shift, scale)
