"""A buffer that shares its tail with the buffer it was made from: adding is O(1) and changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from afbs.types import Update


class Buffer(NamedTuple):
    """Updates in order of arrival."""

    size: int = 0
    last: Update | None = None
    before: Buffer | None = None

    def add(self, update: Update) -> Buffer:
        return Buffer(self.size + 1, update, self)

    def updates(self) -> tuple[Update, ...]:
        found = []
        node: Buffer | None = self
        while node is not None and node.last is not None:
            found.append(node.last)
            node = node.before
        return tuple(reversed(found))
