"""A rolling digest over the lines of a record, so that a changed, lost or foreign line is seen.

Every step carries the digest of everything up to it, itself included. What depends on the clock on the wall is left
out: the last field `wall`, and the lines about checkpoints and resumes. So runs that did the same have the same seals.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, final

_UNSEALED = (b'{"event":"checkpoint"', b'{"event":"resume"')
_WALL = b',"wall":'
_SEAL = b',"seal":"'


@final
class Seal:
    """Fed with lines as they are written or read, without their line ends."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=12)

    def add(self, line: bytes) -> None:
        if not line.startswith(_UNSEALED):
            wall = line.rfind(_WALL)
            self._hash.update(line[:wall] if wall > 0 else line[:-1])
            self._hash.update(b"\n")

    def sealed(self, line: bytes) -> bytes:
        """The line of a step (without its last brace), with the digest of everything so far and itself."""
        self._hash.update(line)
        self._hash.update(b"\n")
        return line + _SEAL + self._hash.hexdigest().encode() + b'"'

    def text(self) -> str:
        return self._hash.hexdigest()

    def check(self, line: bytes) -> bool:
        """Adds a line that was read; False if it carries a digest that does not fit."""
        place = line.rfind(_SEAL)
        if place < 0:
            self.add(line)
            return True
        return line.startswith(self.sealed(line[:place]))


class Break(NamedTuple):
    """The first seal that does not fit is on this line, the `number`-th, which ends at `offset`."""

    number: int
    offset: int
    line: bytes


def lines(path: Path, until: int | None = None) -> Iterator[bytes]:
    """Whole lines, up to an offset."""
    left = until
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (left is not None and left < len(line)):
                return
            if left is not None:
                left -= len(line)
            yield line[:-1]


def read_seal(path: Path, until: int | None = None) -> tuple[Seal, Break | None]:
    """The seal of a record up to an offset, and the first place where it is broken."""
    seal, offset = Seal(), 0
    broken = None
    for number, line in enumerate(lines(path, until), 1):
        offset += len(line) + 1
        if not seal.check(line) and broken is None:
            broken = Break(number, offset, line)
    return seal, broken


def is_as_it_was(path: Path, offset: int, seal: str) -> bool:
    """Whether a record still is what it was when it ended at `offset` with this seal: the same lines, the last one
    whole. What is not sealed may have been moved, and then `offset` may be in the middle of a line."""
    with path.open("rb") as file:
        file.seek(max(0, offset - 1))
        whole = offset == 0 or file.read(1) == b"\n"
    return whole and read_seal(path, offset)[0].text() == seal
