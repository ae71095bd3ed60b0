"""A trace in a CSV file: for each client its starts, in order, and what belongs to each."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from typing import Literal

from afbs.files import ENCODING, path_of
from afbs.latency._draw import BRIEFEST, LONGEST
from afbs.types import ClientId, UserError

TracePairs = tuple[list[float], list[float]]
TraceRows = Mapping[ClientId, TracePairs]


def read_rows(path: str, value: Literal["duration", "end"], earliest: float = 0.0) -> TraceRows:
    """For each client its starts, in order and none before `earliest`, and what belongs to each."""
    part = "latency" if value == "duration" else "availability"
    try:
        with path_of(f"{part}.path", path).open(newline="", encoding=ENCODING) as file:
            return _parsed(path, csv.reader(file), value, earliest)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"The trace {path} cannot be read ({error}).") from error


def _parsed(path: str, lines: Iterable[list[str]], value: str, earliest: float) -> TraceRows:
    found: dict[ClientId, list[tuple[float, float]]] = {}
    wanted = ["client", "start", value]
    for number, row in enumerate(lines, 1):
        if number == 1:
            if [name.strip() for name in row] != wanted:
                raise UserError(f"{path}, line 1: the columns are {', '.join(row)}; expected {', '.join(wanted)}.")
            continue
        if row:
            client, start, other = _numbers(f"{path}, line {number}", row, value, earliest)
            found.setdefault(client, []).append((start, other))
    if not found:
        raise UserError(f"{path} has no rows.")
    rows = {}
    for client in sorted(found):
        pairs = sorted(found[client])
        rows[client] = ([start for start, _ in pairs], [other for _, other in pairs])
    return rows


def _numbers(where: str, row: list[str], value: str, earliest: float) -> tuple[ClientId, float, float]:
    try:
        client, start, other = int(row[0]), float(row[1]), float(row[2])
        if len(row) != 3:
            raise ValueError
    except (ValueError, IndexError):
        raise UserError(f"{where}: {','.join(row)!r} is not a client's number, a start and its {value}.") from None
    if client < 0 or not earliest <= start < math.inf:
        least = "0 or above" if earliest == 0 else f"0 and {earliest:g} or above"
        raise UserError(f"{where}: client and start must be {least}, got {client} and {start:g}.")
    if value == "duration" and not BRIEFEST <= other <= LONGEST:
        raise UserError(f"{where}: the duration must be between {BRIEFEST:g} and {LONGEST:g} seconds, got {other:g}.")
    if value == "end" and not other > start:
        raise UserError(f"{where}: the end must be after the start ({start:g}), got {other:g}.")
    return client, start, other
