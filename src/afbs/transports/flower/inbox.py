"""Vectors that came along with their announcement, on the server's disk until their step has been taken and saved."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import final

import numpy as np

from afbs.record.writer import RecordError, replace_file
from afbs.types import Vector


@final
class Inbox:
    """One file an order: its numbers, and nothing else."""

    def __init__(self, folder: Path, size: int):
        self._folder = folder
        self._size = size

    def put(self, order: int, vector: Vector) -> None:
        try:
            self._folder.mkdir(exist_ok=True)
            replace_file(self._path(order), vector.tobytes())
        except OSError as error:
            raise RecordError(self._folder, error) from error

    def get(self, order: int) -> Vector | None:
        try:
            content = self._path(order).read_bytes()
        except FileNotFoundError:
            return None
        return np.frombuffer(content, np.float32) if len(content) == 4 * self._size else None

    def has(self, order: int) -> bool:
        return self._path(order).exists()

    def drop(self, orders: Iterable[int]) -> None:
        for order in orders:
            self._path(order).unlink(missing_ok=True)

    def orders(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.f32")] if self._folder.is_dir() else []

    def _path(self, order: int) -> Path:
        return self._folder / f"{order}.f32"
