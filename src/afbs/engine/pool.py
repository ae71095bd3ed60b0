"""Who is idle. Drawing, taking and putting back cost the same for ten clients and for a million."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from afbs.seeds import Key
from afbs.types import ClientId


@final
class IdleClients:
    """A set that can be drawn from: a list of clients, and where in it each one stands."""

    def __init__(self, clients: Iterable[ClientId], limit: int, reachable: Callable[[ClientId], bool]):
        self._list = list(clients)
        self._place = {client: place for place, client in enumerate(self._list)}
        self._reachable = reachable
        self._limit = limit
        self.busy = 0

    @property
    def room(self) -> int:
        return self._limit - self.busy

    def add(self, client: ClientId) -> None:
        self._place[client] = len(self._list)
        self._list.append(client)

    def remove(self, client: ClientId) -> None:
        place = self._place.pop(client)
        last = self._list.pop()
        if last != client:
            self._list[place] = last
            self._place[last] = place

    def __contains__(self, client: ClientId) -> bool:
        return client in self._place

    def sample(self, number: int, key: Key) -> list[ClientId]:
        """A Fisher-Yates shuffle that stops early and leaves the list as it is. Clients that have gone are let go."""
        if number == 1 and self._list:  # what an asynchronous run asks for nearly always
            client = self._list[int(key.uniform() * len(self._list))]
            if self._reachable(client):
                return [client]
            self.remove(client)
        chosen: list[ClientId] = []
        gone: list[ClientId] = []
        moved: dict[int, int] = {}
        size = len(self._list)
        draw = 0
        while len(chosen) < number and draw < size:
            place = draw + int(key.uniform(draw) * (size - draw))
            client = self._list[moved.get(place, place)]
            moved[place] = moved.get(draw, draw)
            draw += 1
            if self._reachable(client):
                chosen.append(client)
            else:
                gone.append(client)
        for client in gone:
            self.remove(client)
        return chosen
