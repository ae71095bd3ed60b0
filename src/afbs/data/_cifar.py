"""CIFAR's binary files: records of one or two label bytes and 3,072 pixel bytes, a plane each for red, green, blue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from afbs.data._raw import Part, Raw, require
from afbs.types import UserError

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class CifarBinary:
    """`label_bytes` is 1 for CIFAR-10; 2 for CIFAR-100, whose second is the class."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    label_bytes: int = 1

    @property
    def layout(self) -> str:
        return ", ".join((*self.train, *self.test))

    def find(self, folder: Path) -> Mapping[str, Path] | None:
        paths = {name: folder / name for name in (*self.train, *self.test)}
        return require(folder, {name: path if path.is_file() else None for name, path in paths.items()})

    def read(self, files: Mapping[str, Path]) -> Raw:
        train, test = ([self._part(files[name]) for name in names] for names in (self.train, self.test))
        return Raw(train, test)

    def _part(self, path: Path) -> Part:
        record = self.label_bytes + _PIXELS
        content = np.fromfile(path, np.uint8)
        if len(content) == 0 or len(content) % record:
            raise UserError(
                f"{path} has {len(content):,} bytes, expected a multiple of {record:,} (one record): it is cut "
                "short or damaged."
            )
        records = content.reshape(-1, record)
        labels = records[:, self.label_bytes - 1].astype(np.int64)
        return Part((path,), records[:, self.label_bytes :].reshape(-1, 3, 32, 32), labels)
