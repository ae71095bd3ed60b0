"""Vectors in this process's own memory."""

from __future__ import annotations

from typing import final

import numpy as np

from afbs.interfaces import Store
from afbs.types import Matrix, Vector


@final
class Rows(Store):
    """A dictionary of arrays."""

    def __init__(self, size: int):
        self._size = size
        self._rows: dict[int, Vector] = {}
        self._blocks: dict[int, int] = {}
        self._next = 0
        self._peak = 0

    def put(self, vector: Vector) -> int:
        first, matrix = self.block(1)
        matrix[0] = vector
        return first

    def get(self, slot: int) -> Vector:
        return self._rows[slot]

    def drop(self, slot: int) -> None:
        self.release(slot)

    def block(self, rows: int) -> tuple[int, Matrix]:
        matrix = np.empty((rows, self._size), np.float32)
        first = self._next
        self._next += rows
        self._rows.update({first + row: matrix[row] for row in range(rows)})
        self._blocks[first] = rows
        self._peak = max(self._peak, len(self._rows))
        return first, matrix

    def release(self, first: int) -> None:
        for row in range(self._blocks.pop(first)):
            del self._rows[first + row]

    @property
    def peak_bytes(self) -> int:
        return 4 * self._size * self._peak
