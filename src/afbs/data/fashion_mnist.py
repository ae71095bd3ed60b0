"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017; arXiv 1708.07747): articles of clothing in MNIST's format."""

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
class FashionMnist(Source):
    """70,000 articles of clothing of 28 × 28 pixels."""

    about: ClassVar[About] = About(60_000, 10_000, 10, "MIT", "huggingface.co/datasets/zalando-datasets/fashion_mnist")
    official: ClassVar[Official] = Official(
        name="fashion_mnist",
        published=Published(train=(6000,) * 10, test=(1000,) * 10, shape=(1, 28, 28)),
        formats=(Idx(), HubParquet()),
        folders=("fashion_mnist", "fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
        hub="zalando-datasets/fashion_mnist",
    )

    def load(self) -> Dataset:
        return load(self.official, {}, lambda raw: images(raw, (0.2860,), (0.3530,), 10))
