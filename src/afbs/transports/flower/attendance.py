"""Who can be given work: whose node is connected, who owes no answer, and who did not fail again and again."""

from __future__ import annotations

from typing import final

from afbs.transports.flower.roster import Roster
from afbs.transports.flower.wire import Clock
from afbs.types import ClientId

_FAILURES = 3
_BENCH_SECONDS, _LONGEST_BENCH = 30.0, 3600.0


@final
class Attendance:
    """`present` are Flower's numbers of the nodes that are connected; everything else is about clients."""

    def __init__(self, roster: Roster, clock: Clock):
        self._roster = roster
        self._clock = clock
        self.present: set[int] = set()
        self._silent: set[ClientId] = set()
        self._failures: dict[ClientId, int] = {}
        self._benched: dict[ClientId, float] = {}

    def here(self) -> list[ClientId]:
        return [client for client in self._roster.members if self.reachable(client)]

    def reachable(self, client: ClientId) -> bool:
        return (
            client in self._roster.members
            and client not in self._silent
            and self._clock.now() >= self._benched.get(client, 0.0)
            and self._roster.node_of.get(client) in self.present
        )

    def heard(self, client: ClientId) -> None:
        """It answered something: it is not silent."""
        self._silent.discard(client)

    def silent(self, client: ClientId) -> None:
        """It owes an answer, and is not asked for more until it gave one."""
        self._silent.add(client)

    def gone(self, client: ClientId) -> None:
        self.missed(self._roster.node_of.get(client, -1))

    def missed(self, node: int) -> None:
        """It cannot be reached; should it be there after all, the next census greets it anew."""
        self.present.discard(node)

    def did(self, client: ClientId) -> None:
        self._failures.pop(client, None)

    def failed(self, client: ClientId) -> None:
        """One that fails again and again is asked less and less often."""
        failures = self._failures[client] = self._failures.get(client, 0) + 1
        if failures >= _FAILURES:
            pause = min(_BENCH_SECONDS * 2.0 ** (failures - _FAILURES), _LONGEST_BENCH)
            self._benched[client] = self._clock.now() + pause
