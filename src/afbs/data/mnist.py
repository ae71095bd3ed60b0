"""MNIST (LeCun, Cortes, Burges 1998): handwritten digits, 28 × 28 grey pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from afbs.data._about import About
from afbs.data._hub_files import HubParquet
from afbs.data._idx import Idx
from afbs.data._official import Official, images, load
from afbs.data._raw import Published
from afbs.interfaces import Source
from afbs.types import Dataset


@final
@dataclass(frozen=True)
class Mnist(Source):
    """70,000 handwritten digits of 28 × 28 pixels."""

    about: ClassVar[About] = About(60_000, 10_000, 10, "CC BY-SA 3.0", "huggingface.co/datasets/ylecun/mnist")
    official: ClassVar[Official] = Official(
        name="mnist",
        published=Published(
            train=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            test=(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
            shape=(1, 28, 28),
            digests={"train": 0x51844E8D87EA0B9F, "test": 0x639D7164A31D6483},
        ),
        formats=(Idx(), HubParquet()),
        folders=("mnist", "MNIST/raw", "MNIST"),
        hub="ylecun/mnist",
    )

    def load(self) -> Dataset:
        return load(self.official, {}, lambda raw: images(raw, (0.1307,), (0.3081,), 10))
