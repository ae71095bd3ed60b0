"""CIFAR-10 (Krizhevsky 2009): photographs of ten kinds of things, 32 × 32 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from afbs.data._about import About
from afbs.data._cifar import CifarBinary
from afbs.data._hub_files import HubParquet
from afbs.data._official import Official, images, joined, load
from afbs.data._raw import Part, Published, Raw, row_digests
from afbs.interfaces import Source
from afbs.types import Dataset

_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_BATCH = 10_000


@final
@dataclass(frozen=True)
class Cifar10(Source):
    """60,000 photographs of 32 × 32 pixels, in 10 classes."""

    about: ClassVar[About] = About(50_000, 10_000, 10, "none stated; cite", "huggingface.co/datasets/uoft-cs/cifar10")
    official: ClassVar[Official] = Official(
        name="cifar10",
        published=Published(
            train=(5000,) * 10,
            test=(1000,) * 10,
            shape=(3, 32, 32),
            digests={
                "data_batch_1.bin": 0xA1224D373D98A046,
                "data_batch_2.bin": 0xB994391689EECBED,
                "data_batch_3.bin": 0x47CCB03FE9EBA0F0,
                "data_batch_4.bin": 0x61CCE5E98B1DC170,
                "data_batch_5.bin": 0x53C6BEF5524B4576,
                "train": 0x5816DB6C8EDC1409,
                "test": 0x4262E699745F38E1,
            },
        ),
        formats=(CifarBinary(_BATCHES, ("test_batch.bin",)), HubParquet("img")),
        folders=("cifar-10-batches-bin", "cifar10", "CIFAR10"),
        hub="uoft-cs/cifar10",
    )

    def load(self) -> Dataset:
        shift, scale = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.262)
        return load(self.official, {}, lambda raw: images(_in_order(raw), shift, scale, 10))


def _in_order(raw: Raw) -> Raw:
    """The hub keeps the five batches in another order. Put back, the same seed gives the same run from any files."""
    x, y = joined(raw.train)
    pieces = [Part((), x[start : start + _BATCH], y[start : start + _BATCH]) for start in range(0, len(y), _BATCH)]
    place = {Cifar10.official.published.digests.get(name): number for number, name in enumerate(_BATCHES)}
    places = [place.get(int(row_digests(piece).sum(dtype=np.uint64))) for piece in pieces]
    if sorted(known for known in places if known is not None) != list(range(len(_BATCHES))):
        return raw
    return Raw([pieces[places.index(number)] for number in range(len(_BATCHES))], raw.test)
