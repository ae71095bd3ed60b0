"""The fleet as the plan sees it: orders out, and news one at a time, each at a moment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter
from typing import TYPE_CHECKING, final

from afbs.interfaces import Connection
from afbs.types import ClientId, Instant, Order, Vector

if TYPE_CHECKING:
    from afbs.transports.flower.fleet import FlowerFleet

_LOOK_AROUND = 2.0
"""Seconds after which the caller gets a word though nothing happened."""
_BLINK = 1e-3
"""A shorter sleep may be lost in rounding, and then no time would pass."""
_REMIND = 60.0
"""Seconds of silence after which that is said, and again."""


@final
class FlowerConnection(Connection):
    """Time is seconds since the run began, over all lives of the server; while it was dead, time stood still."""

    def __init__(self, fleet: FlowerFleet):
        self._fleet = fleet
        self._began = fleet.clock.now()
        self.started = False
        self._last = 0.0
        self._watched: set[ClientId] = set()
        self._reminded = 0.0
        self._to_drop: list[int] = []

    def now(self) -> float:
        return self._fleet.clock.now() - self._began if self.started else 0.0

    def _start(self, time: float = 0.0) -> None:
        self.started = True
        self._began = self._fleet.clock.now() - time
        self._fleet.wire.heard = self._fleet.clock.now()

    def publish(self, version: int, params: Vector) -> None:
        """The version is safe: what its step took in need not be kept any more."""
        fleet = self._fleet
        if not self.started:
            self._start()
        fleet.orders.publish(version, params)
        if self._to_drop:
            fleet.orders.inbox.drop(self._to_drop)
            self._to_drop.clear()
            fleet.report()

    def settled(self, order: Order) -> None:
        self._to_drop.append(order.sequence)

    def send(self, order: Order) -> None:
        self._fleet.orders.send(order)

    def reachable(self, client: ClientId) -> bool:
        return self._fleet.attendance.reachable(client)

    def watch(self, client: ClientId) -> None:
        self._watched.add(client)

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        self._start(time)
        self._last = time
        self._watched = set(away)
        self._fleet.orders.adopt(orders)

    def receive(self, until: float) -> Instant | None:
        fleet = self._fleet
        look = min(until, self.now() + _LOOK_AROUND)
        while True:
            if not fleet.news:
                fleet.turn()
            if fleet.news:
                return self._told(fleet.news.popleft(), until)
            back = next((client for client in sorted(self._watched) if fleet.attendance.reachable(client)), None)
            if back is not None:
                self._watched.remove(back)
                return self._told(Instant(0.0, returned=[back]), until)
            now = self.now()
            if now >= look:
                break
            fleet.clock.sleep(max(_BLINK, min(fleet.settings.poll_seconds, look - now)))
        if self._too_silent():
            return None
        moment = min(until, max(self.now(), nextafter(self._last, inf)))
        if moment >= until:
            self._last = until
        return Instant(moment)

    def close(self) -> None:
        inbox = self._fleet.orders.inbox
        inbox.drop(inbox.orders())

    def _told(self, news: Instant, until: float) -> Instant:
        self._last = min(until, max(self.now(), nextafter(self._last, inf)))
        return news._replace(time=self._last)

    def _too_silent(self) -> bool:
        """Says how long nothing has been heard, and how long that may go on; True if it is enough."""
        fleet = self._fleet
        silent = fleet.clock.now() - fleet.wire.heard
        limit = fleet.settings.silence
        if silent >= limit:
            fleet.note(f"nothing was heard for {silent:.0f} s: the run ends (`transport.silence`)")
            return True
        if silent < _REMIND:
            self._reminded = 0.0
        elif silent - self._reminded >= _REMIND:
            self._reminded = silent
            here, out, patience = len(fleet.attendance.here()), len(fleet.orders.out), fleet.settings.patience
            end = "" if limit == inf else f"the run ends after {limit:.0f} s of it, "
            fleet.tell(
                f"Nothing heard for {silent:.0f} s. {here} clients are connected, {out} orders are out; "
                f"{end}an order is given up after {patience:.0f} s."
            )
        return False
