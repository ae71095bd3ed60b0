"""Presences as a fleet was seen to have them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import final

from afbs.interfaces import Availability
from afbs.latency._draw import LONGEST
from afbs.latency._rows import TracePairs, TraceRows, read_rows
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError


@final
@dataclass(frozen=True)
class Observed(Availability):
    """Presences as `afbs export --trace` writes them, to the last digit: a CSV file with client, start and end.

    A job that is under way at the end of a presence is lost, even where the next one begins at that moment. A client
    whose first presence begins after 0 joins then, and one that has none never does; who was known from the beginning
    but away has a presence that ended by 0.
    """

    path: str
    """A CSV file with the columns client, start, end."""

    def joins(self, client: ClientInfo) -> float:
        return max(0.0, self._rows[client.id][0][0]) if client.id in self._rows else inf

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        starts, ends = self._of(client)
        place = bisect_right(starts, time) - 1
        if place >= 0 and time < ends[place]:
            return time
        return starts[place + 1] if place + 1 < len(starts) else inf

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        starts, ends = self._of(client)
        until = ends[max(0, bisect_right(starts, start) - 1)]
        return max(until, start) if finish > until else None

    @cached_property
    def _rows(self) -> TraceRows:
        return read_rows(self.path, "end", earliest=-LONGEST)

    def _of(self, client: ClientInfo) -> TracePairs:
        if client.id not in self._rows:
            raise UserError(f"`availability.path`: {self.path} has no presence of client {client.id}.")
        return self._rows[client.id]
