"""The Parquet files of the Hugging Face hub: images as PNG bytes, or sentences, with a label."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._raw import Part, Raw, require
from afbs.data._tables import read_parquet
from afbs.types import UserError


@dataclass(frozen=True, slots=True)
class HubParquet:
    """`train-*.parquet` and `test-*.parquet`, anywhere below a folder; `test` names the split to test on."""

    sample: str = "image"
    label: str = "label"
    test: str = "test"
    text: bool = False

    @property
    def layout(self) -> str:
        return f"train-*.parquet, {self.test}-*.parquet"

    def find(self, folder: Path) -> Mapping[str, Path] | None:
        if not folder.is_dir():
            return None
        first = {split: sorted(folder.rglob(f"{split}-*.parquet")) for split in ("train", self.test)}
        named: dict[str, Path | None] = {}
        for split, paths in first.items():
            named.update((path.name, path) for path in paths)
            named.update(_absent_shards(paths) if paths else {f"{split}-*.parquet": None})
        return require(folder, named)

    def read(self, files: Mapping[str, Path]) -> Raw:
        parts: dict[str, list[Part]] = {"train": [], self.test: []}
        for name in sorted(files):
            parts[name.split("-")[0]].append(self._part(files[name]))
        return Raw(parts["train"], parts[self.test])

    def _part(self, path: Path) -> Part:
        samples, numbers = read_parquet(path, (self.sample, self.label))
        for row, (sample, number) in enumerate(zip(samples, numbers, strict=True)):
            if not isinstance(number, int) or not isinstance(sample, str if self.text else dict):
                raise UserError(f"{path}, row {row}: expected {self.sample} and {self.label}, a whole number.")
        labels = np.array(numbers, np.int64)
        if self.text:
            return Part((path,), samples, labels)
        images = [_pixels(path, row, image) for row, image in enumerate(samples)]
        for row, image in enumerate(images):
            if image.shape != images[0].shape:
                raise UserError(f"{path}, row {row}: an image of {image.shape}, the first is of {images[0].shape}.")
        return Part((path,), np.stack(images), labels)


def pixels(content: bytes | Path, channels: int = 0, side: int = 0) -> NDArray[np.uint8]:
    """An image file as (channels, height, width). `channels` 0 keeps what it has, 1 if it is grey and 3 otherwise."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise UserError("Reading image files needs pillow: pip install 'afbs[hub]'.") from error
    with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content) as image:
        grey = channels == 1 or (channels == 0 and image.mode in ("1", "L", "I;16"))
        plain = image.convert("L" if grey else "RGB")
        if side and plain.size != (side, side):
            plain = plain.resize((side, side), Image.Resampling.BILINEAR)
        array: NDArray[Any] = np.asarray(plain, np.uint8)
    return array[None] if grey else array.transpose(2, 0, 1)


def _pixels(path: Path, row: int, image: Mapping[str, Any]) -> NDArray[np.uint8]:
    try:
        return pixels(image["bytes"])
    except UserError:
        raise
    except Exception as error:  # a damaged image raises nearly anything
        raise UserError(f"{path}, row {row}: this is no image.") from error


def _absent_shards(paths: list[Path]) -> dict[str, Path | None]:
    """`train-00000-of-00002.parquet` says how many there must be."""
    split, _, rest = paths[0].stem.partition("-")
    _, _, total = rest.partition("-of-")
    if not total.isdecimal():
        return {}
    there = {path.name for path in paths}
    names = [f"{split}-{shard:05d}-of-{total}.parquet" for shard in range(int(total))]
    return {name: None for name in names if name not in there}
