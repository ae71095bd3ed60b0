"""Durations and presences replayed from a file."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple, final

from annotated_types import Ge, Le

from afbs.interfaces import Availability, Latency
from afbs.latency._draw import LONGEST
from afbs.latency._rows import TracePairs, TraceRows, read_rows
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, UserError

_ULPS = 4
"""Rounding that a moment may carry, so that a client is neither sent to work at the very end of a presence nor kept
from it at the very beginning."""


@final
@dataclass(frozen=True)
class Trace(Latency):
    """Durations from a CSV file with the columns client, start and duration.

    A job takes as long as the client's last row that started by then says; before its first row, as the first says.
    A `period` above 0 starts the file again after so many seconds. With `share` clients that the file does not know
    use the rows of those it does, in turn.
    """

    path: str
    """A CSV file with the columns client, start, duration."""
    period: Annotated[float, Ge(0), Le(LONGEST)] = 0.0
    """The file starts again after so many seconds; 0 is never."""
    share: bool = False
    """Clients that the file does not know use the rows of those it does, in turn."""
    per = "job"

    def __post_init__(self) -> None:
        _check_period("latency", self.period)

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        """What the file says, whatever the work: it does not tell computing from sending."""
        starts, durations = _of(self._rows, self._known, client.id, self.share, "latency", self.path)
        place = bisect_right(starts, start % self.period if self.period else start) - 1
        # Before the first row of a repeated file the last of the round before still holds.
        return durations[place if place >= 0 or self.period else 0]

    @cached_property
    def _rows(self) -> TraceRows:
        return read_rows(self.path, "duration")

    @cached_property
    def _known(self) -> list[ClientId]:
        return list(self._rows)


class _Presence(NamedTuple):
    """The stretch of time that is asked about: until when a client is there, or when it comes next."""

    until: float
    back: float


@final
@dataclass(frozen=True)
class TraceAvailability(Availability):
    """Presences from a CSV file with the columns client, start and end; a job that outlasts one is lost.

    Presences that touch or overlap are one. A `period` above 0 repeats the file; what is beyond it is wrapped to its
    beginning. `share` is as in the trace of durations.
    """

    path: str
    """A CSV file with the columns client, start, end."""
    period: Annotated[float, Ge(0), Le(LONGEST)] = 0.0
    """The file is repeated after so many seconds; 0 is never."""
    share: bool = False
    """Clients that the file does not know use the rows of those it does, in turn."""

    def __post_init__(self) -> None:
        _check_period("availability", self.period)

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return self._presence(client, time).back

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        until = self._presence(client, start).until
        return until if finish > until else None

    @cached_property
    def _rows(self) -> TraceRows:
        return {client: _merged(pairs, self.period) for client, pairs in read_rows(self.path, "end").items()}

    @cached_property
    def _known(self) -> list[ClientId]:
        return list(self._rows)

    def _presence(self, client: ClientInfo, time: float) -> _Presence:
        starts, ends = _of(self._rows, self._known, client.id, self.share, "availability", self.path)
        period = self.period
        round_start = time - time % period if period else 0.0
        moment = time - round_start + _ULPS * math.ulp(time)
        if period and moment >= period:
            round_start, moment = round_start + period, moment - period
        place = bisect_right(starts, moment) - 1
        if place < 0 and period:  # it may have begun in the round before
            place, round_start, moment = len(starts) - 1, round_start - period, moment + period
        if place >= 0 and moment < ends[place]:
            return _Presence(round_start + ends[place], time)
        if place + 1 < len(starts):
            return _Presence(time, round_start + starts[place + 1])
        return _Presence(time, round_start + period + starts[0] if period else math.inf)


def _check_period(part: str, period: float) -> None:
    if 0 < period < 1:
        raise UserError(f"`{part}.period` must be 0 (the file is not repeated) or at least 1, got {period:g}.")


def _merged(pairs: TracePairs, period: float) -> TracePairs:
    """Presences in order that neither touch nor overlap. Each begins within a period; the last may end after it."""
    spans = sorted(_folded(pairs, period)) if period else zip(*pairs, strict=True)
    slack = _ULPS * math.ulp(max(pairs[0][-1], *(end for end in pairs[1] if end < math.inf), period))
    starts: list[float] = []
    ends: list[float] = []
    for start, end in spans:
        if starts and start <= ends[-1] + slack:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return _closed(starts, ends, period, slack) if period else (starts, ends)


def _folded(pairs: TracePairs, period: float) -> Iterable[tuple[float, float]]:
    """The same presences on a circle, cut open at 0."""
    for start, end in zip(*pairs, strict=True):
        if end - start >= period:
            yield 0.0, period
            continue
        begin = start % period
        stop = begin + (end - start)
        yield begin, min(stop, period)
        if stop > period:
            yield 0.0, stop - period


def _closed(starts: list[float], ends: list[float], period: float, slack: float) -> TracePairs:
    """What ends where the circle was cut open goes on with what begins there."""
    whole = starts[0] <= slack and ends[-1] >= period - slack
    if whole and len(starts) == 1:
        return [0.0], [math.inf]
    if whole:
        return starts[1:], [*ends[1:-1], period + ends[0]]
    return starts, ends


def _of(rows: TraceRows, known: list[ClientId], client: ClientId, share: bool, part: str, path: str) -> TracePairs:
    if client in rows:
        return rows[client]
    if share:
        return rows[known[client % len(known)]]
    raise UserError(
        f"`{part}.path`: {path} has no row for client {client}, only for {len(rows)} others. "
        f"`{part}.share` = true lets clients use the rows of others."
    )
