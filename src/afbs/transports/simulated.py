"""Virtual time: a heap of what will happen.

Events are ordered by (time, kind, number): at one instant deliveries come first, in the order in which their
orders were sent, then failures, then returning clients. `receive` hands over a whole instant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import final

from afbs.interfaces import Availability, Latency, Transport
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Instant, Order, UserError

_DELIVERED, _FAILED, _RETURNED = range(3)


@final
class Simulated(Transport):
    """Clients that take as long as `latency` says and come and go as `availability` says."""

    def __init__(self, clients: Sequence[ClientInfo], latency: Latency, availability: Availability, seed: int):
        self._clients: Mapping[ClientId, ClientInfo] = {client.id: client for client in clients}
        self._latency = latency
        self._availability = availability
        self._lasting = latency.per == "client"
        self._latency_key = Key.root(seed, "latency").digest
        self._availability_key = Key.root(seed, "availability").digest
        self._heap: list[tuple[float, int, int, Order | ClientId]] = []
        self._away_until: dict[ClientId, float] = {}
        self._now = 0.0

    def send(self, order: Order) -> None:
        client = self._clients[order.client]
        path = (order.client,) if self._lasting else (order.client, order.occurrence)
        duration = self._latency.duration(client, order.time, Key(self._latency_key, path))
        if not duration > 0:
            raise UserError(f"`latency` gave client {client.id} a duration of {duration} s; it must be above 0.")
        finish = order.time + duration
        key = Key(self._availability_key, (order.client, order.occurrence))
        lost = self._availability.vanishes(client, order.time, finish, key)
        if lost is None:
            heappush(self._heap, (finish, _DELIVERED, order.sequence, order))
        else:
            heappush(self._heap, (lost, _FAILED, order.sequence, order))
            self._away_until[client.id] = lost + self._availability.absence(client, key)

    def reachable(self, client: ClientId) -> bool:
        key = Key(self._availability_key, (client,))
        there = max(self._now, self._away_until.get(client, 0.0))
        back = self._availability.back(self._clients[client], there, key) if there < math.inf else there
        if back <= self._now:
            return True
        if back < math.inf:
            heappush(self._heap, (back, _RETURNED, client, client))
        return False

    def receive(self) -> Instant | None:
        heap = self._heap
        if not heap:
            return None
        found: tuple[list[Order], list[Order], list[ClientId]] = ([], [], [])
        time = self._now = heap[0][0]
        while heap and heap[0][0] == time:
            _, kind, _, what = heappop(heap)
            found[kind].append(what)  # type: ignore[arg-type]
        return Instant(time, *found)
