"""A record told again: the lines of `events.jsonl` as instants, up to any point, then whoever comes next.

    connection = Replay(lines)                 ends where the record ends
    connection = Replay(lines, then=another)   hands over: `another` is told which orders are out and who is away

What was told at one instant has one time in the record, and no other instant has it. Whoever could not be reached when
the algorithm wanted to dispatch stands in the record as having left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, final

from afbs.interfaces import Connection
from afbs.record.lines import TOLD
from afbs.types import ClientId, ClientInfo, Instant, Order, RunError, Vector

_Line = Mapping[str, Any]


@final
class Replay(Connection):
    """Orders are known by their number; what comes back for one that was not sent is an error of the record."""

    def __init__(self, lines: Iterable[_Line], then: Connection | None = None):
        self._groups = _by_instant(lines)
        self._next = next(self._groups, None)
        self._then = then
        self._handed_over = False
        self._time = 0.0
        self._orders: dict[int, Order] = {}
        self._away: dict[ClientId, None] = {}
        self._left: set[ClientId] = set()
        if self._next is not None and self._next[0] is None:  # what was decided before anything was told
            self._take(self._next[1])

    def send(self, order: Order) -> None:
        if self._handed_over and self._then:
            self._then.send(order)
        else:
            self._orders[order.sequence] = order

    def reachable(self, client: ClientId) -> bool:
        if self._handed_over and self._then:
            return self._then.reachable(client)
        return client not in self._left

    def watch(self, client: ClientId) -> None:
        if self._handed_over and self._then:
            self._then.watch(client)
        else:
            self._away[client] = None

    def publish(self, version: int, params: Vector) -> None:
        if self._then:
            self._then.publish(version, params)

    def close(self) -> None:
        if self._then:
            self._then.close()

    def receive(self, until: float) -> Instant | None:
        if self._next is None:
            return self._hand_over(until)
        time, lines = self._next
        assert time is not None
        if time > until:
            return Instant(until)
        self._take(lines)
        self._time = time
        return Instant(
            time,
            [self._order(line) for line in lines if line["event"] == "arrival"],
            [self._order(line) for line in lines if line["event"] == "lost"],
            [self._back(line["client"]) for line in lines if line["event"] == "returned"],
            [
                ClientInfo(line["client"], line["examples"], line["cluster"])
                for line in lines
                if line["event"] == "joined"
            ],
        )

    def _take(self, lines: list[_Line]) -> None:
        self._left = {line["client"] for line in lines if line["event"] == "left"}
        self._next = next(self._groups, None)

    def _order(self, line: _Line) -> Order:
        order = self._orders.pop(line["order"], None)
        if order is None:
            raise RunError(f"The record tells of order {line['order']} at {line['time']:g} s, and nobody gave it.")
        return order

    def _back(self, client: ClientId) -> ClientId:
        self._away.pop(client, None)
        return client

    def _hand_over(self, until: float) -> Instant | None:
        if self._then is None:
            return None
        if not self._handed_over:
            self._handed_over = True
            self._then.take_over(self._time, list(self._orders.values()), list(self._away))
        return self._then.receive(until)


def _by_instant(lines: Iterable[_Line]) -> Iterator[tuple[float | None, list[_Line]]]:
    """Lines in groups, each beginning with what was told at one time; the first has what was decided before."""
    times: Iterator[tuple[float | None, _Line]] = _timed(lines)
    for time, group in groupby(times, key=lambda pair: pair[0]):
        yield time, [line for _, line in group]


def _timed(lines: Iterable[_Line]) -> Iterator[tuple[float | None, _Line]]:
    time: float | None = None
    for line in lines:
        if line["event"] in TOLD:
            time = line["time"]
        yield time, line
