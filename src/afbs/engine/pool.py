"""Who is idle. Drawing, taking and putting back cost the same for ten clients and for a million."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import final

from afbs.seeds import Key
from afbs.types import ClientId


@final
class IdleClients:
    """A set that can be drawn from: a list of clients, and where in it each one stands.

    Whether a client can be reached is asked when it is about to be drawn. Those that cannot are skipped, which leaves
    the draw uniform among the others, and noted; `let_go` takes them out, once, when the dispatch is over.
    """

    def __init__(self, clients: Iterable[ClientId], limit: int, reachable: Callable[[ClientId], bool]):
        self._list: list[ClientId] = []
        self._place: dict[ClientId, int] = {}
        self.gone: dict[ClientId, None] = {}
        self._reachable = reachable
        self._limit = limit
        self.time = 0.0
        self.version = 0
        self.busy = 0
        for client in clients:
            self.add(client)

    @property
    def room(self) -> int:
        return self._limit - self.busy

    def add(self, client: ClientId) -> None:
        if client not in self._place:
            self._place[client] = len(self._list)
            self._list.append(client)

    def remove(self, client: ClientId) -> bool:
        """Whether it was there to be taken."""
        place = self._place.pop(client, None)
        if place is None:
            return False
        last = self._list.pop()
        if last != client:
            self._list[place] = last
            self._place[last] = place
        return True

    def let_go(self) -> list[ClientId]:
        """Takes out those who could not be reached, in the order in which that was found."""
        gone = list(self.gone)
        self.gone.clear()
        for client in gone:
            self.remove(client)
        return gone

    def __contains__(self, client: object) -> bool:
        return client in self._place and self._there(client)

    def __iter__(self) -> Iterator[ClientId]:
        return filter(self._there, iter(self._list))

    def sample(self, number: int, key: Key) -> list[ClientId]:
        """A Fisher-Yates shuffle that stops early and leaves the list as it is."""
        if number == 1 and self._list:  # what an asynchronous run asks for nearly always
            client = self._list[int(key.uniform() * len(self._list))]
            if self._there(client):
                return [client]
        chosen: list[ClientId] = []
        moved: dict[int, int] = {}
        size = len(self._list)
        draw = 0
        while len(chosen) < number and draw < size:
            place = draw + int(key.uniform(draw) * (size - draw))
            client = self._list[moved.get(place, place)]
            moved[place] = moved.get(draw, draw)
            draw += 1
            if self._there(client):
                chosen.append(client)
        return chosen

    def _there(self, client: ClientId) -> bool:
        if client in self.gone:
            return False
        if self._reachable(client):
            return True
        self.gone[client] = None
        return False
