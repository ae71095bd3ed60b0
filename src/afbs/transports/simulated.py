"""Virtual time: a heap of what will happen.

Events are ordered by (time, kind, number): at one instant deliveries come first, in the order in which their
orders were sent, then failures, then returning clients, then new ones. `receive` hands over a whole instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, isfinite, nextafter
from typing import Any, ClassVar, final

from afbs.interfaces import Availability, Connection, Latency, Scene, Transport
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Instant, Order, UserError

_DELIVERED, _FAILED, _RETURNED, _JOINED = range(4)
_SENSIBLE = "seconds above 0 that the clock can show"


@final
@dataclass(frozen=True)
class Simulated(Transport):
    """Virtual time: clients behave as `[latency]` and `[availability]` say."""

    def connect(self, scene: Scene) -> VirtualTime:
        return VirtualTime(scene.clients, scene.latency, scene.availability, scene.seed, scene.work)


@final
class VirtualTime(Connection):
    """Clients that take as long as `latency` says and come and go as `availability` says."""

    ahead: ClassVar[bool] = True

    def __init__(
        self,
        clients: Sequence[ClientInfo],
        latency: Latency,
        availability: Availability,
        seed: int,
        work: Callable[[Order], float] | None = None,
    ):
        self._clients: Mapping[ClientId, ClientInfo] = {client.id: client for client in clients}
        self._latency = latency
        self._availability = availability
        self._steady = availability.steady
        self._lasting = latency.per == "client"
        self._work = work
        self._latency_key = Key.root(seed, "latency").digest
        self._availability_key = Key.root(seed, "availability").digest
        self._heap: list[tuple[float, int, int, Order | ClientId | ClientInfo]] = []
        self._away_until: dict[ClientId, float] = {}
        self._durations: dict[ClientId, float] = {}
        self._now = 0.0
        if not self._steady:
            self._invite()

    def send(self, order: Order) -> None:
        now = order.time
        if order.steps or order.epochs:
            duration = self._drawn(order, (self._work or _usual)(order))
        else:
            duration = self._durations.get(order.client) or self._drawn(order)
        finish = now + duration
        if not now < finish < inf:
            raise _senseless(self._latency, "duration", self._clients[order.client], now, duration, _SENSIBLE)
        if self._steady:
            heappush(self._heap, (finish, _DELIVERED, order.sequence, order))
            return
        client = self._clients[order.client]
        key = Key(self._availability_key, (order.client, order.occurrence))
        lost = self._availability.vanishes(client, now, finish, key)
        if lost is None:
            heappush(self._heap, (finish, _DELIVERED, order.sequence, order))
            return
        if not _is_moment(lost) or not now <= lost <= finish:
            raise _senseless(self._availability, "vanishes", client, now, lost, "None or a moment of the job")
        lost = max(lost, nextafter(now, inf))  # nobody is gone before being asked
        absence = self._availability.absence(client, key)
        if not _is_moment(absence) or not absence >= 0:
            raise _senseless(self._availability, "absence", client, now, absence, "seconds, 0 or above")
        heappush(self._heap, (lost, _FAILED, order.sequence, order))
        self._away_until[client.id] = lost + absence

    def reachable(self, client: ClientId) -> bool:
        return self._steady or self._back(client) <= self._now

    def watch(self, client: ClientId) -> None:
        back = self._back(client)
        if isfinite(back):
            heappush(self._heap, (max(back, nextafter(self._now, inf)), _RETURNED, client, client))

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        for order in orders:
            self.send(order)
        self._heap = [each for each in self._heap if each[1] != _JOINED or each[0] >= time]
        soonest = nextafter(time, inf)  # what happened at the very end may not have been told
        self._heap = sorted((max(moment, soonest), kind, number, what) for moment, kind, number, what in self._heap)
        self._now = time
        for client in away:
            self.watch(client)

    def receive(self, until: float) -> Instant | None:
        heap = self._heap
        if not heap:
            return None
        time = heap[0][0]
        if time > until:
            self._now = until
            return Instant(until)
        self._now = time
        _, kind, _, what = heappop(heap)
        if kind == _DELIVERED and not (heap and heap[0][0] == time):  # as nearly always
            return tuple.__new__(Instant, (time, (what,), (), (), ()))
        found: tuple[list[Any], ...] = ([], [], [], [])
        found[kind].append(what)
        while heap and heap[0][0] == time:
            _, kind, _, what = heappop(heap)
            found[kind].append(what)
        return Instant(time, *found)

    def _invite(self) -> None:
        """Those who are not there from the beginning are told of when they come."""
        for client in self._clients.values():
            moment = self._availability.joins(client)
            if not _is_moment(moment):
                raise _senseless(self._availability, "joins", client, 0.0, moment, "a moment, or infinity")
            if 0 < moment < inf:
                heappush(self._heap, (moment, _JOINED, client.id, client))

    def _drawn(self, order: Order, work: float = 1.0) -> float:
        """How long this job takes; what is drawn once a client is kept, for the usual work."""
        client = self._clients[order.client]
        path = (order.client,) if self._lasting else (order.client, order.occurrence)
        key = Key(self._latency_key, path)
        duration = self._latency.duration(client, order.time, key, *(() if work == 1.0 else (work,)))
        if not _is_moment(duration) or not duration > 0:
            raise _senseless(self._latency, "duration", client, order.time, duration, _SENSIBLE)
        if self._lasting and work == 1.0:
            self._durations[order.client] = duration
        return duration

    def _back(self, client: ClientId) -> float:
        """When the client can be reached, from now on."""
        there = max(self._now, self._away_until.get(client, 0.0))
        if there == inf:
            return inf
        key = Key(self._availability_key, (client,))
        back = self._availability.back(self._clients[client], there, key)
        if not _is_moment(back) or not back >= there:
            info = self._clients[client]
            raise _senseless(self._availability, "back", info, there, back, "that moment or a later one")
        return back


def _usual(order: Order) -> float:
    """Where nobody knows how much work is usual."""
    return 1.0


def _is_moment(value: Any) -> bool:
    return isinstance(value, int | float) and value == value


def _senseless(part: Any, method: str, client: ClientInfo, now: float, got: Any, wanted: str) -> UserError:
    name = f"`{type(part).__name__}.{method}`"
    return UserError(f"{name} must return {wanted}; for client {client.id} at {now:g} s it returned {got!r}.")
