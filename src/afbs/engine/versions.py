"""The versions of the model that somebody may still start from, and nothing older: what bounds a run's memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import final

from afbs.interfaces import Store
from afbs.types import Vector


@final
class Versions:
    """Counts who needs which version. Orders are counted when they are planned, so nobody comes too late: once a newer
    version exists and nobody needs an older one, nobody ever will."""

    def __init__(self, store: Store):
        self._store = store
        self._slots: dict[int, int] = {}
        self._users: defaultdict[int, int] = defaultdict(int)
        self.newest = 0

    def add(self, version: int, params: Vector) -> None:
        """A new version exists; the one before it may go if nobody uses it."""
        before, self.newest = self.newest, version
        self._slots[version] = self._store.put(params)
        if before != version:
            self._retire_if_unused(before)

    def use(self, version: int) -> None:
        self._users[version] += 1

    def let_go(self, version: int) -> None:
        self._users[version] -= 1
        self._retire_if_unused(version)

    def slot(self, version: int) -> int:
        return self._slots[version]

    def read(self, version: int) -> Vector:
        return self._store.get(self._slots[version])

    def older(self) -> dict[int, Vector]:
        """Copies of the versions that are still needed, besides the newest."""
        return {version: self.read(version).copy() for version in self._slots if version != self.newest}

    def restore(self, older: Mapping[int, Vector], version: int, params: Vector) -> None:
        """What a checkpoint held. Users have been counted by then, from the plan."""
        self._users = defaultdict(int, {number: users for number, users in self._users.items() if users > 0})
        self._slots = {number: self._store.put(vector) for number, vector in older.items()}
        self.newest = version
        self._slots[version] = self._store.put(params)

    def _retire_if_unused(self, version: int) -> None:
        if version < self.newest and self._users[version] <= 0:
            del self._users[version]
            slot = self._slots.pop(version, None)
            if slot is not None:
                self._store.drop(slot)
