"""Durations and presences replayed from a file."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, final

from annotated_types import Ge, Le

from afbs.files import ENCODING, path_of
from afbs.interfaces import Availability, Latency
from afbs.latency._draw import BRIEFEST, LONGEST
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, UserError

_Pairs = tuple[list[float], list[float]]
_Rows = Mapping[ClientId, _Pairs]
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

    def duration(self, client: ClientInfo, start: float, key: Key) -> float:
        starts, durations = _of(self._rows, self._known, client.id, self.share, "latency", self.path)
        place = bisect_right(starts, start % self.period if self.period else start) - 1
        # Before the first row of a repeated file the last of the round before still holds.
        return durations[place if place >= 0 or self.period else 0]

    @cached_property
    def _rows(self) -> _Rows:
        return _read(self.path, "duration")

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
    def _rows(self) -> _Rows:
        return {client: _merged(pairs, self.period) for client, pairs in _read(self.path, "end").items()}

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


def _merged(pairs: _Pairs, period: float) -> _Pairs:
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


def _folded(pairs: _Pairs, period: float) -> Iterable[tuple[float, float]]:
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


def _closed(starts: list[float], ends: list[float], period: float, slack: float) -> _Pairs:
    """What ends where the circle was cut open goes on with what begins there."""
    whole = starts[0] <= slack and ends[-1] >= period - slack
    if whole and len(starts) == 1:
        return [0.0], [math.inf]
    if whole:
        return starts[1:], [*ends[1:-1], period + ends[0]]
    return starts, ends


def _of(rows: _Rows, known: list[ClientId], client: ClientId, share: bool, part: str, path: str) -> _Pairs:
    if client in rows:
        return rows[client]
    if share:
        return rows[known[client % len(known)]]
    raise UserError(
        f"`{part}.path`: {path} has no row for client {client}, only for {len(rows)} others. "
        f"`{part}.share` = true lets clients use the rows of others."
    )


def _read(path: str, value: Literal["duration", "end"]) -> _Rows:
    """For each client its starts, in order, and what belongs to each."""
    part = "latency" if value == "duration" else "availability"
    try:
        with path_of(f"{part}.path", path).open(newline="", encoding=ENCODING) as file:
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
    if value == "duration" and not BRIEFEST <= other <= LONGEST:
        raise UserError(f"{where}: the duration must be between {BRIEFEST:g} and {LONGEST:g} seconds, got {other:g}.")
    if value == "end" and not other > start:
        raise UserError(f"{where}: the end must be after the start ({start:g}), got {other:g}.")
    return client, start, other
