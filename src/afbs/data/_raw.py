"""Samples as they come out of files, and whether they are the ones they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from afbs.types import UserError


@dataclass(frozen=True, slots=True)
class Part:
    """What one file holds, or one pair of files. `x` are images as uint8 (N, channels, height, width), or texts."""

    files: tuple[Path, ...]
    x: NDArray[Any] | Sequence[str]
    y: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Raw:
    """A data set as read."""

    train: Sequence[Part]
    test: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Published:
    """What is known of a published data set: the samples of each class and, by split or file name, their digests."""

    train: tuple[int, ...]
    test: tuple[int, ...]
    shape: tuple[int, ...] = ()
    digests: Mapping[str, int] = field(default_factory=dict)


class Format(Protocol):
    """One way in which people have a data set on disk."""

    @property
    def layout(self) -> str:
        """The files it looks for, in words."""

    def find(self, folder: Path) -> Mapping[str, Path] | None:
        """The files of this format in a folder; None if there are none, an error if some are missing."""

    def read(self, files: Mapping[str, Path]) -> Raw: ...


def require(folder: Path, found: Mapping[str, Path | None]) -> Mapping[str, Path] | None:
    """All of the files, or None if there is none; a UserError names those that are missing."""
    there = {name: path for name, path in found.items() if path is not None}
    if not there:
        return None
    if missing := [name for name, path in found.items() if path is None]:
        raise UserError(f"{folder}: {', '.join(missing)} is missing, though {', '.join(sorted(there))} is there.")
    return there


def row_digests(part: Part) -> NDArray[np.uint64]:
    """A number for each sample with its label."""
    labels = part.y.astype("<i8")
    rows = (
        blake2b(
            x.encode() if isinstance(x, str) else np.ascontiguousarray(x).tobytes(),
            digest_size=8,
            key=y.tobytes(),
        ).digest()
        for x, y in zip(part.x, labels, strict=True)
    )
    return np.frombuffer(b"".join(rows), "<u8").astype(np.uint64)


def digest(part: Part) -> int:
    """A number for a set of samples, whatever their order: the sum of their own, modulo 2^64."""
    return int(row_digests(part).sum(dtype=np.uint64))


def confirm(name: str, raw: Raw, published: Published) -> None:
    """A UserError unless these are the samples of the published data set, in any order."""
    for split, parts, counts in (("train", raw.train, published.train), ("test", raw.test, published.test)):
        where = ", ".join(str(path) for part in parts for path in part.files)
        _confirm_shape(where, parts, published.shape)
        labels = np.concatenate([part.y for part in parts])
        if len(labels) != sum(counts):
            raise UserError(
                f"{name}: the {split} split has {len(labels):,} samples, expected {sum(counts):,} ({where}). "
                "Is a file cut short, or are two files swapped?"
            )
        if labels.min() < 0 or labels.max() >= len(counts):
            wrong = int(labels.max() if labels.max() >= len(counts) else labels.min())
            raise UserError(f"{name}: a {split} label is {wrong}, expected 0 to {len(counts) - 1} ({where}).")
        found = np.bincount(labels, minlength=len(counts))
        if (off := np.flatnonzero(found != counts)).size:
            label = int(off[0])
            raise UserError(
                f"{name}: the {split} split has {found[label]:,} samples of class {label}, expected {counts[label]:,} "
                f"({where}). Is a file damaged, or are two files swapped?"
            )
        if split in published.digests:
            _confirm_digest(name, split, parts, published.digests, where)


def _confirm_shape(where: str, parts: Sequence[Part], shape: tuple[int, ...]) -> None:
    for part in parts:
        if isinstance(part.x, np.ndarray) and part.x.shape[1:] != shape:
            raise UserError(f"{where}: images of {part.x.shape[1:]} (channels, height, width), expected {shape}.")


def _confirm_digest(name: str, split: str, parts: Sequence[Part], known: Mapping[str, int], where: str) -> None:
    found = {part.files[0].name: digest(part) for part in parts}
    total = sum(found.values()) % 2**64
    if total == known[split]:
        return
    changed = [file for file, value in found.items() if known.get(file, value) != value]
    raise UserError(
        f"{name}: these are not the {split} samples that were published ({', '.join(changed) or where}): their "
        f"digest is {total:016x}, expected {known[split]:016x}. Is a file damaged, or are two files swapped? Data of "
        "your own are read by `data.name` = 'npz', 'images' or 'text'."
    )
