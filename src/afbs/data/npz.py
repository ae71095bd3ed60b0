"""Arrays in a file that numpy wrote."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from afbs.data._own import dataset, file_recipe
from afbs.data._store import cached
from afbs.files import path_of
from afbs.interfaces import Source
from afbs.types import Dataset, UserError


@final
@dataclass(frozen=True)
class Npz(Source):
    """Your own arrays in a .npz file: `train_x`, `train_y` and, if there are, `test_x`, `test_y`, `owners`."""

    path: str
    """The file."""
    train_x: str = "train_x"
    """The name of the array of training samples."""
    train_y: str = "train_y"
    """Of their labels."""
    test_x: str = "test_x"
    """Of the test samples, if there are any."""
    test_y: str = "test_y"
    """Of their labels."""
    owners: str = "owners"
    """Of whose sample each is, if it is known."""
    numbers: bool = False
    """Labels are numbers to be predicted, one or a row a sample, and not classes."""

    def load(self) -> Dataset:
        path = path_of("data.path", self.path)
        return cached("npz", file_recipe(self, path), lambda: self._convert(path))

    def _convert(self, path: Path) -> Dataset:
        try:
            with path.open("rb") as opened:
                if not zipfile.is_zipfile(opened):
                    raise UserError(
                        f"`data.path`: {path} is no .npz file, or it is damaged: it is no archive, such as "
                        "`numpy.savez` writes."
                    )
                opened.seek(0)
                with np.load(opened, allow_pickle=False) as file:
                    return self._read(path, file)
        except UserError:
            raise
        except Exception as error:  # a damaged archive raises nearly anything
            raise UserError(f"`data.path`: {path} is no .npz file, or it is damaged ({error}).") from error

    def _read(self, path: Path, file: Mapping[str, NDArray[Any]]) -> Dataset:
        there = list(file)
        for name in (self.train_x, self.train_y):
            if name not in there:
                raise UserError(f"`data.path`: {path} has no array {name!r}; it has: {', '.join(there)}.")
        train_x, train_y = _array(path, file, self.train_x), _array(path, file, self.train_y)
        test_x, test_y, owners = (
            _array(path, file, name) if name in there else None for name in (self.test_x, self.test_y, self.owners)
        )
        return dataset(str(path), train_x, train_y, test_x, test_y, owners, are_numbers=self.numbers)


def _array(path: Path, file: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    try:
        return file[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise UserError(
            f"`data.path`: {path}: the array {name!r} holds Python objects (values of several kinds, or rows of "
            "different lengths). They are pickled, and nothing is unpickled here, because that can run any code: save "
            f"it as numbers or text, as in `numpy.savez(…, {name}=values.astype(str))`."
        ) from None
