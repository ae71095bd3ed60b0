"""Published data sets: where their files may be, what they must hold, and how they come into the cache.

Files are looked for in `$AFBS_DATA` first, then in the cache, where `afbs data get` and `afbs data import` put them.
What has been converted once is confirmed to be the published data, so it is used without looking for files again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._raw import Format, Part, Published, Raw, confirm
from afbs.data._store import cache_folder, cached
from afbs.types import Dataset, UserError


@dataclass(frozen=True, slots=True)
class Official:
    """`folders` are the names under which people keep it; `hub` is its address on the Hugging Face hub."""

    name: str
    published: Published
    formats: tuple[Format, ...]
    folders: tuple[str, ...]
    hub: str


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a data set in one folder."""

    folder: Path
    format: Format
    files: Mapping[str, Path]


def load(official: Official, recipe: Mapping[str, Any], convert: Callable[[Raw], Dataset]) -> Dataset:
    """From the cache, or from files by way of the cache."""
    return cached(official.name, recipe, lambda: convert(read(official, find(official))))


def find(official: Official) -> Found:
    """Where the files are; a UserError says where they could be."""
    for folder in _places(official):
        if found := find_in(official, folder):
            return found
    chosen = os.environ.get("AFBS_DATA")
    if chosen and not Path(chosen).expanduser().is_dir():
        raise UserError(f"The files of {official.name!r} are not here: $AFBS_DATA is {chosen}, which is no folder.")
    raise UserError(
        f"The files of {official.name!r} are not here. `afbs data get {official.name}` downloads them. "
        f"{by_hand(official)}"
    )


def find_in(official: Official, folder: Path) -> Found | None:
    """The files in this very folder, in the first format that fits."""
    for kind in official.formats:
        if files := kind.find(folder):
            return Found(folder, kind, files)
    return None


def read(official: Official, found: Found) -> Raw:
    """The samples, confirmed to be those that were published."""
    raw = found.format.read(found.files)
    confirm(official.name, raw, official.published)
    return raw


def files_folder(name: str) -> Path:
    """Where `afbs data get` and `afbs data import` put files."""
    return cache_folder() / "files" / name


def by_hand(official: Official) -> str:
    """How to bring the files here without a network, in words."""
    chosen = os.environ.get("AFBS_DATA")
    layouts = "; or ".join(kind.layout for kind in official.formats)
    return (
        f"`afbs data import {official.name} FOLDER` takes them from a folder or an archive, or put them into "
        f"{chosen or '$AFBS_DATA'}/{official.folders[0]}{'' if chosen else ' and set AFBS_DATA'}: {layouts}."
    )


def images(raw: Raw, shift: tuple[float, ...], scale: tuple[float, ...], classes: int) -> Dataset:
    """A data set of images from what was read."""
    (train_x, train_y), (test_x, test_y) = (joined(parts) for parts in (raw.train, raw.test))
    return Dataset(train_x, train_y, test_x, test_y, classes, shift, scale)


def joined(parts: Sequence[Part]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The images and labels of all parts, in their order."""
    return np.concatenate([np.asarray(part.x) for part in parts]), np.concatenate([part.y for part in parts])


def _places(official: Official) -> Iterator[Path]:
    if root := os.environ.get("AFBS_DATA"):
        for name in (*official.folders, official.hub):
            yield Path(root).expanduser() / name
    yield files_folder(official.name)
