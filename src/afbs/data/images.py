"""Image files in a folder for each class."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.data._hub_files import pixels
from afbs.data._own import dataset
from afbs.data._store import cached
from afbs.data._tables import columns
from afbs.files import path_of
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


@final
@dataclass(frozen=True)
class Images(Source):
    """Your own image files: a folder for each class, under `path` or under its `train` and `test` folders.

    `size` scales every image to a square of that side; 0 keeps them, and then all must be equally large. `owners`
    names a CSV file with the columns `file` (as seen from `path`) and `owner`, for natural clients.
    """

    path: str
    """The folder: one below it for each class, or `train` and `test` first."""
    size: Annotated[int, Ge(0), Le(10_000)] = 0
    """Every image is scaled to a square of this side; 0 keeps them, and then all must be equally large."""
    channels: Literal[1, 3] = 3
    """1 is grey, 3 is colour."""
    owners: str = ""
    """A CSV file with the columns `file` and `owner`, for natural clients."""

    def load(self) -> Dataset:
        root = path_of("data.path", self.path)
        if not root.is_dir():
            raise UserError(f"`data.path`: there is no folder {root}.")
        apart = (root / "train").is_dir()
        train = _listed(root / "train" if apart else root)
        test = _listed(root / "test") if apart and (root / "test").is_dir() else []
        table = [] if not self.owners else [(path_of("data.owners", root / self.owners), "")]
        recipe = {"settings": asdict(self), "files": _fingerprint(root, [*train, *test, *table])}
        return cached("images", recipe, lambda: self._convert(root, train, test))

    def _convert(self, root: Path, train: Sequence[tuple[Path, str]], test: Sequence[tuple[Path, str]]) -> Dataset:
        train_x, train_y = self._arrays(train)
        test_x, test_y = self._arrays(test) if test else (None, None)
        owners = self._owner_of_each(root, [path for path, _ in train]) if self.owners else None
        return dataset(str(root), train_x, train_y, test_x, test_y, owners)

    def _arrays(self, files: Sequence[tuple[Path, str]]) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        first = self._pixels(files[0][0])
        images = np.empty((len(files), *first.shape), np.uint8)
        for place, (path, _) in enumerate(files):
            image = self._pixels(path)
            if image.shape != first.shape:
                raise UserError(
                    f"{path} has {image.shape[1]} × {image.shape[2]} pixels, {files[0][0]} has "
                    f"{first.shape[1]} × {first.shape[2]}. Set `data.size` to scale all images to one size."
                )
            images[place] = image
        return images, np.array([name for _, name in files])

    def _pixels(self, path: Path) -> NDArray[np.uint8]:
        try:
            return pixels(path, self.channels, self.size)
        except UserError:
            raise
        except Exception as error:  # a damaged image raises nearly anything
            raise UserError(f"{path} is no image, or it is damaged ({error}).") from error

    def _owner_of_each(self, root: Path, paths: Sequence[Path]) -> NDArray[Any]:
        table = root / self.owners
        files, names = columns(table, ("file", "owner"))
        owner = dict(zip(files, map(str, names), strict=True))
        for path in paths:
            if str(path.relative_to(root)) not in owner:
                raise UserError(f"`data.owners`: {table} does not say whose {path.relative_to(root)} is.")
        return np.array([owner[str(path.relative_to(root))] for path in paths])


def _listed(root: Path) -> list[tuple[Path, str]]:
    """Every image with the name of its class, in alphabetical order."""
    found = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        inside = [(path, folder.name) for path in sorted(folder.rglob("*")) if path.suffix.lower() in _ENDINGS]
        if not inside:
            raise UserError(f"`data.path`: there is no image in {folder}, which should hold a class.")
        found += inside
    if not found:
        raise UserError(f"`data.path`: {root} has no folders of images; expected one for each class.")
    return found


def _fingerprint(root: Path, files: Sequence[tuple[Path, str]]) -> str:
    digest = hashlib.sha256(str(root.resolve()).encode())
    for path, _ in files:
        if not path.is_file():
            raise UserError(f"`data.owners`: there is no file {path}.")
        facts = path.stat()
        digest.update(f"{path.relative_to(root)}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
