"""The session of a fleet whose vectors can be had by asking for them one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from afbs.interfaces import Session
from afbs.types import Assignment, ClientId, Evaluated, Fetch, Order, Shipped, Vector


@final
class Fetched(Session):
    """Vectors come from `fetch(order)`, which gives None where one cannot be had; all else is left to `local`.

    `settled(order)` is told when the vector of an order will not be asked for any more.
    """

    def __init__(
        self, local: Session, fetch: Callable[[Order], Vector | None], settled: Callable[[Order], object] | None = None
    ):
        self._local, self._fetch, self._settled = local, fetch, settled
        self.store, self.workers, self.depth = local.store, local.workers, local.depth
        self._done: list[Shipped | Evaluated] = []

    def initial(self) -> Vector:
        return self._local.initial()

    def submit(self, task: Assignment) -> None:
        if not isinstance(task, Fetch):
            self._local.submit(task)
            return
        vector = self._fetch(task.order)
        if vector is None:
            self._done.append(Shipped(task.task, "missing"))
            return
        self.store.get(task.out)[:] = vector
        self._done.append(Shipped(task.task, "done" if np.isfinite(vector).all() else "not finite"))

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        done, self._done = self._done, []
        return done or self._local.collect(seconds)

    def settle(self, order: Order, kept: bool) -> None:
        if self._settled is not None:
            self._settled(order)

    def remembered(self) -> Mapping[ClientId, Vector]:
        return {}

    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        """Real clients remember for themselves."""

    def close(self) -> None:
        self._local.close()
