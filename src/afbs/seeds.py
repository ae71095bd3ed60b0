"""Randomness as an argument: a key names a place in a tree of seeds, and every draw is made from a key.

A draw therefore depends on what it is for (seed, purpose, client, occurrence) and on nothing that happened before:
leaving a job out, or running it on another worker, changes no other number.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

import numpy as np

_PACKERS = [Struct(f"<{length}q").pack for length in range(1, 9)]


class Key(NamedTuple):
    """`Key.root(seed, "latency")` and its children. Two different paths give independent streams."""

    digest: bytes
    path: tuple[int, ...] = ()

    @classmethod
    def root(cls, seed: int, purpose: str) -> Key:
        return cls(blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest())

    def child(self, *ids: int) -> Key:
        return Key(self.digest, self.path + ids)

    def uniform(self, index: int = 0) -> float:
        """The index-th number in [0, 1) of this key; about a microsecond, for the places that need only a few."""
        digest, path = self
        message = _PACKERS[len(path)](*path, index)
        return (int.from_bytes(blake2b(message, digest_size=8, key=digest).digest(), "little") >> 11) * 2.0**-53

    def integer(self) -> int:
        """A 63-bit seed for a library that wants one."""
        return int.from_bytes(self._hash(-1, 8), "little") >> 1

    def generator(self) -> np.random.Generator:
        """A numpy generator, for the places that need many."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._hash(-2, 16), "little")))

    def _hash(self, index: int, size: int) -> bytes:
        message = _PACKERS[len(self.path)](*self.path, index)
        return blake2b(message, digest_size=size, key=self.digest).digest()
