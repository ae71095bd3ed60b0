"""What clients remember between two of their jobs, where that is kept by the session: rows of its store.

A job reads its client's row and writes what it learned into a new one; only when its step has been applied does the new
row take the old one's place, so that what a checkpoint holds fits its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

import numpy as np

from afbs.interfaces import Store
from afbs.types import ClientId, Evaluate, Order, Train, Vector


def rows(store: Store, task: Train | Evaluate, states: Iterable[int]) -> list[Vector]:
    """What a task reads and writes, in the order in which a trainer takes it."""
    slots = (task.base, task.out, *states) if isinstance(task, Train) else (task.base,)
    return [store.get(slot) for slot in slots]


@final
class States:
    """Rows by client. Before its first job a client remembers zeros."""

    def __init__(self, store: Store, size: int):
        self._store = store
        self._size = size
        self._kept: dict[ClientId, int] = {}
        self._learned: dict[int, int] = {}

    def slots(self, order: Order) -> tuple[int, int]:
        """Where a job finds its client's state, and where the new one goes."""
        if order.client not in self._kept:
            self._kept[order.client] = self._store.put(np.zeros(self._size, np.float32))
        if order.sequence not in self._learned:
            self._learned[order.sequence] = self._store.block(1)[0]
        return self._kept[order.client], self._learned[order.sequence]

    def settle(self, order: Order, kept: bool) -> None:
        learned = self._learned.pop(order.sequence)
        if kept:
            self._store.get(self._kept[order.client])[:] = self._store.get(learned)
        self._store.release(learned)

    def remembered(self) -> dict[ClientId, Vector]:
        """Copies."""
        return {client: self._store.get(slot).copy() for client, slot in sorted(self._kept.items())}

    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        self._kept = {client: self._store.put(vector) for client, vector in remembered.items()}
