"""Durations and presences replayed from a file."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, final

from annotated_types import Ge

from afbs.interfaces import Availability, Latency
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, UserError

_Rows = Mapping[ClientId, tuple[list[float], list[float]]]


@final
@dataclass(frozen=True)
class Trace(Latency):
    """Durations from a CSV file with the columns client, start and duration.

    A job takes as long as the client's last row that started by then says; before its first row, as the first says.
    A `period` above 0 starts the file again after so many seconds. With `share` clients that the file does not know
    use the rows of those it does, in turn.
    """

    path: str
    period: Annotated[float, Ge(0)] = 0.0
    share: bool = False
    per = "job"

    def duration(self, client: ClientInfo, start: float, key: Key) -> float:
        starts, durations = _of(self._rows, client.id, self.share, "latency", self.path)
        place = bisect_right(starts, start % self.period if self.period else start) - 1
        # Before the first row of a repeated file the last of the round before still holds.
        return durations[place if place >= 0 or self.period else 0]

    @cached_property
    def _rows(self) -> _Rows:
        return _read(self.path, "duration")


@final
@dataclass(frozen=True)
class TraceAvailability(Availability):
    """Presences from a CSV file with the columns client, start and end; a job that outlasts one is lost.

    `period` and `share` are as in the trace of durations.
    """

    path: str
    period: Annotated[float, Ge(0)] = 0.0
    share: bool = False

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        starts, ends = self._presences(client)
        round_start, moment = self._round(time)
        place = bisect_right(starts, moment) - 1
        if place >= 0 and moment < ends[place]:
            return time
        if place + 1 < len(starts):
            return round_start + starts[place + 1]
        return round_start + self.period + starts[0] if self.period else math.inf

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        starts, ends = self._presences(client)
        round_start, moment = self._round(start)
        place = bisect_right(starts, moment) - 1
        end = round_start + ends[place] if place >= 0 else start
        return max(start, end) if finish > end else None

    @cached_property
    def _rows(self) -> _Rows:
        return _read(self.path, "end")

    def _presences(self, client: ClientInfo) -> tuple[list[float], list[float]]:
        return _of(self._rows, client.id, self.share, "availability", self.path)

    def _round(self, time: float) -> tuple[float, float]:
        return (time - time % self.period, time % self.period) if self.period else (0.0, time)


def _of(rows: _Rows, client: ClientId, share: bool, part: str, path: str) -> tuple[list[float], list[float]]:
    if client in rows:
        return rows[client]
    if share:
        known = list(rows)
        return rows[known[client % len(known)]]
    raise UserError(
        f"`{part}.path`: {path} has no row for client {client}, only for {len(rows)} others. "
        f"`{part}.share` = true lets clients use the rows of others."
    )


def _read(path: str, value: Literal["duration", "end"]) -> _Rows:
    """For each client its starts, in order, and what belongs to each."""
    try:
        with Path(path).expanduser().open(newline="", encoding="utf-8") as file:
            return _parsed(path, csv.reader(file), value)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"The trace {path} cannot be read ({error}).") from error


def _parsed(path: str, lines: Iterable[list[str]], value: str) -> _Rows:
    found: dict[ClientId, list[tuple[float, float]]] = {}
    wanted = ["client", "start", value]
    for number, row in enumerate(lines, 1):
        if number == 1:
            if [name.strip() for name in row] != wanted:
                raise UserError(f"{path}, line 1: the columns are {', '.join(row)}; expected {', '.join(wanted)}.")
            continue
        if row:
            client, start, other = _numbers(f"{path}, line {number}", row, value)
            found.setdefault(client, []).append((start, other))
    if not found:
        raise UserError(f"{path} has no rows.")
    rows = {}
    for client in sorted(found):
        pairs = sorted(found[client])
        rows[client] = ([start for start, _ in pairs], [other for _, other in pairs])
    return rows


def _numbers(where: str, row: list[str], value: str) -> tuple[ClientId, float, float]:
    try:
        client, start, other = int(row[0]), float(row[1]), float(row[2])
        if len(row) != 3:
            raise ValueError
    except (ValueError, IndexError):
        raise UserError(f"{where}: {','.join(row)!r} is not a client's number, a start and its {value}.") from None
    if client < 0 or not 0 <= start < math.inf:
        raise UserError(f"{where}: client and start must be 0 or above, got {client} and {start:g}.")
    if value == "duration" and not 0 < other < math.inf:
        raise UserError(f"{where}: the duration must be above 0, got {other:g}.")
    if value == "end" and not other > start:
        raise UserError(f"{where}: the end must be after the start ({start:g}), got {other:g}.")
    return client, start, other
