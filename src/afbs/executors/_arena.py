"""Memory that processes share: rows of one model's size in an unnamed file.

The file has no name, so it is gone with the last process that has it open, however that process ends. It is sparse
and free rows with the lowest numbers are used first, so the memory it takes is that of the rows in use at the peak.
Large rows take none until they are written, and none once they are free.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import insort
from typing import final

import numpy as np

from afbs.interfaces import Store
from afbs.types import Matrix, Vector

_ALIGNMENT = 64
_LARGE = 4 << 20
"""Bytes of a row from which on its memory is given back when it is free; having it anew costs a fault a page."""


@final
class Arena(Store):
    """The server and its workers each have one over the same file. Only the server allocates."""

    def __init__(self, length: int, fd: int):
        self._length = length
        self._stride = -(-length * 4 // _ALIGNMENT) * _ALIGNMENT
        self._fd = fd
        self._rows = 0
        self._memory: mmap.mmap | None = None
        self._map: np.ndarray[tuple[int, int], np.dtype[np.float32]] | None = None
        self._free: list[tuple[int, int]] = []
        self._taken: dict[int, int] = {}
        self._highest = 0

    def put(self, vector: Vector) -> int:
        slot = self._allocate(1)
        self.get(slot)[:] = vector
        return slot

    def get(self, slot: int) -> Vector:
        row: Vector = self._view(slot, 1)[0]
        return row

    def drop(self, slot: int) -> None:
        self.release(slot)

    def block(self, rows: int) -> tuple[int, Matrix]:
        first = self._allocate(rows)
        return first, self._view(first, rows)

    def release(self, first: int) -> None:
        count = self._taken.pop(first)
        if self._stride >= _LARGE:
            self._give_back(first, count)
        self._put_back(first, count)

    @property
    def peak_bytes(self) -> int:
        """How much memory all rows that were ever in use take."""
        return self._highest * self._stride

    def _view(self, first: int, count: int) -> Matrix:
        if self._map is None or first + count > len(self._map):
            rows = os.fstat(self._fd).st_size // self._stride
            self._memory = mmap.mmap(self._fd, rows * self._stride)
            self._map = np.frombuffer(self._memory, np.float32).reshape(rows, self._stride // 4)
        return self._map[first : first + count, : self._length]

    def _allocate(self, count: int) -> int:
        """The number of the first of `count` neighbouring rows."""
        for place, (first, free) in enumerate(self._free):
            if free >= count:
                self._free[place : place + 1] = [(first + count, free - count)] if free > count else []
                self._taken[first] = count
                self._highest = max(self._highest, first + count)
                return first
        grown = max(64, count, self._rows // 2)
        os.ftruncate(self._fd, (self._rows + grown) * self._stride)
        self._put_back(self._rows, grown)
        self._rows += grown
        return self._allocate(count)

    def _give_back(self, first: int, count: int) -> None:
        """The pages that lie in these rows, on systems that can; a page that is shared with a neighbour stays."""
        begin = -(-first * self._stride // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (first + count) * self._stride // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_REMOVE") and self._memory is not None and end <= len(self._memory):
            self._memory.madvise(mmap.MADV_REMOVE, begin, end - begin)

    def _put_back(self, first: int, count: int) -> None:
        insort(self._free, (first, count))
        place = self._free.index((first, count))
        if place + 1 < len(self._free) and first + count == self._free[place + 1][0]:
            count += self._free.pop(place + 1)[1]
            self._free[place] = (first, count)
        if place and sum(self._free[place - 1]) == first:
            before = self._free[place - 1]
            self._free[place - 1 : place + 1] = [(before[0], before[1] + count)]


def unnamed_memory() -> int:
    """A file descriptor that processes can share; nothing is left of it when the last of them has ended."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("afbs")
    with tempfile.TemporaryFile() as file:  # no memfd outside Linux
        return os.dup(file.fileno())
