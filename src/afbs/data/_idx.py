"""The IDX files of MNIST: a magic number, the sizes, the bytes; compressed or not."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._raw import Part, Raw, require
from afbs.types import UserError

_LABELS, _IMAGES = 2049, 2051
_KINDS = {_LABELS: "labels", _IMAGES: "images"}
_STEMS = {
    "train-images-idx3-ubyte": _IMAGES,
    "train-labels-idx1-ubyte": _LABELS,
    "t10k-images-idx3-ubyte": _IMAGES,
    "t10k-labels-idx1-ubyte": _LABELS,
}


@dataclass(frozen=True, slots=True)
class Idx:
    """Four files, of which each may end in .gz."""

    layout = "{train,t10k}-{images-idx3,labels-idx1}-ubyte, each with or without .gz"

    def find(self, folder: Path) -> Mapping[str, Path] | None:
        return require(folder, {stem: _present(folder, stem) for stem in _STEMS})

    def read(self, files: Mapping[str, Path]) -> Raw:
        return Raw([_pair(files, "train")], [_pair(files, "t10k")])


def read_idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: it is cut short or damaged ({error}).") from error
    dimensions = magic % 256
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise UserError(f"{path} has {len(content)} bytes, expected at least {start}: it is cut short.")
    found, *shape = struct.unpack(f">{1 + dimensions}i", content[:start])
    if found != magic:
        holds = f"holds {_KINDS[found]}" if found in _KINDS else "is no IDX file"
        raise UserError(
            f"{path} {holds}: its magic number is {found}, expected {magic} ({_KINDS[magic]}). Are two files swapped?"
        )
    if len(content) - start != math.prod(shape):
        raise UserError(
            f"{path} has {len(content) - start:,} bytes of data, expected {math.prod(shape):,} "
            f"({' × '.join(map(str, shape))}): it is cut short or damaged."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _present(folder: Path, stem: str) -> Path | None:
    """The file under its own name or the variant with a dot that some archives use."""
    for name in (stem, stem.replace("-idx", ".idx")):
        for path in (folder / f"{name}.gz", folder / name):
            if path.is_file():
                return path
    return None


def _pair(files: Mapping[str, Path], prefix: str) -> Part:
    pictures, classes = files[f"{prefix}-images-idx3-ubyte"], files[f"{prefix}-labels-idx1-ubyte"]
    images: NDArray[Any] = read_idx(pictures, _IMAGES)
    labels = read_idx(classes, _LABELS)
    if len(images) != len(labels):
        raise UserError(f"{pictures} has {len(images):,} images, but {classes} has {len(labels):,} labels.")
    return Part((pictures, classes), images[:, None], labels.astype(np.int64))
