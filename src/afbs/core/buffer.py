"""A buffer that shares its tail with the buffer it was made from: adding is O(1) and changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from afbs.types import Step, Update


class Buffer(NamedTuple):
    """Updates in order of arrival. `since` is when the first of them came, `refused` are those that will not count."""

    size: int = 0
    last: Update | None = None
    before: Buffer | None = None
    since: float = 0.0
    refused: tuple[Update, ...] = ()

    def add(self, update: Update) -> Buffer:
        size, _, _, since, refused = self
        # Not by calling the class: this happens at every arrival.
        return tuple.__new__(Buffer, (size + 1, update, self, since if size else update.time, refused))

    def refuse(self, update: Update) -> Buffer:
        """It arrived, and the step that empties this buffer drops it."""
        return self._replace(refused=(*self.refused, update))

    def updates(self) -> tuple[Update, ...]:
        found = []
        node: Buffer | None = self
        while node is not None and node.last is not None:
            found.append(node.last)
            node = node.before
        return tuple(reversed(found))

    def step(self, why: str = "too stale") -> Step | None:
        """Everything in it counts; `why` says why the refused do not. None if there is nothing to take."""
        if not self.refused:
            return Step(self.updates()) if self.size else None
        reasons = ("in time",) * self.size + (why,) * len(self.refused)
        return Step(self.updates(), self.refused, why=reasons)

    def sifted(self, why: Sequence[str], out: Collection[str]) -> Step:
        """A step with a reason for each update: whatever has a reason in `out` is dropped, like the refused."""
        updates = self.updates()
        used = [i for i, reason in enumerate(why) if reason not in out]
        dropped = [i for i, reason in enumerate(why) if reason in out]
        return Step(
            used=tuple([updates[i] for i in used]),
            dropped=tuple([updates[i] for i in dropped]) + self.refused,
            why=tuple([why[i] for i in (*used, *dropped)]) + ("too stale",) * len(self.refused),
        )
