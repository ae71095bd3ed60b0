"""CIFAR-100 (Krizhevsky 2009): photographs of a hundred kinds of things, 32 × 32 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from afbs.data._about import About
from afbs.data._cifar import CifarBinary
from afbs.data._hub_files import HubParquet
from afbs.data._official import Official, images, load
from afbs.data._raw import Published
from afbs.interfaces import Source
from afbs.types import Dataset


@final
@dataclass(frozen=True)
class Cifar100(Source):
    """60,000 photographs of 32 × 32 pixels, in 100 classes."""

    about: ClassVar[About] = About(50_000, 10_000, 100, "none stated; cite", "huggingface.co/datasets/uoft-cs/cifar100")
    official: ClassVar[Official] = Official(
        name="cifar100",
        published=Published(
            train=(500,) * 100,
            test=(100,) * 100,
            shape=(3, 32, 32),
            digests={"train": 0xB6456869E4183472, "test": 0xB83C6933D73270F7},
        ),
        formats=(CifarBinary(("train.bin",), ("test.bin",), label_bytes=2), HubParquet("img", "fine_label")),
        folders=("cifar-100-binary", "cifar100", "CIFAR100"),
        hub="uoft-cs/cifar100",
    )

    def load(self) -> Dataset:
        shift, scale = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
        return load(self.official, {}, lambda raw: images(raw, shift, scale, 100))
