"""What sessions have in common whose clients live where the session does."""

from __future__ import annotations

from collections.abc import Mapping

from afbs.executors._states import States
from afbs.interfaces import Session
from afbs.types import ClientId, Order, Vector


class LocalSession(Session):
    """Keeps what clients remember, if they do, in its own store."""

    states: States | None

    def settle(self, order: Order, kept: bool) -> None:
        if self.states:
            self.states.settle(order, kept)

    def remembered(self) -> Mapping[ClientId, Vector]:
        return self.states.remembered() if self.states else {}

    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        if self.states:
            self.states.restore(remembered)
