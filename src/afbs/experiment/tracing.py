"""What the clients of a run did, as the files that the `trace` latency and availability read.

With them any other algorithm can be tried on the same fleet: `afbs export FOLDER --trace fleet.csv`.
"""

from __future__ import annotations

import csv
import io
import json
from math import inf, nextafter
from pathlib import Path
from typing import Any

from afbs.record.reader import read_meta
from afbs.record.seal import lines
from afbs.record.writer import replace_file
from afbs.types import ClientId, UserError

_BLINK = 1e-6
"""Seconds that somebody is away who was lost with a job and could be reached again at once."""


def export_trace(folder: str | Path, file: str | Path) -> list[Path]:
    """Writes the durations to `file` and, if anybody was ever away, the presences beside it; says what was written.

    A job that was lost has a duration that outlasts the client's presence, and one that was still under way when the
    run ended a duration that outlasts the run. Durations are such that a job that starts at the same moment ends at the
    same moment, to the last digit.
    """
    read_meta(Path(folder))
    events = Path(folder) / "events.jsonl"
    if not events.is_file():
        raise UserError(f"`{folder}` has no record: there is no `events.jsonl`.")
    starts: dict[int, tuple[ClientId, float]] = {}
    durations: list[tuple[ClientId, float, float]] = []
    fleet = _Presences()
    end = 0.0
    for line in map(json.loads, lines(events)):
        kind = line["event"]
        end = max(end, line.get("time", 0.0))
        if kind == "dispatch":
            starts[line["sequence"]] = line["client"], line["time"]
            fleet.seen(line["client"], line["time"])
        elif kind in ("arrival", "lost"):
            client, start = starts.pop(line["order"])
            lasts = _duration(start, line["time"])
            durations.append((client, start, lasts if kind == "arrival" else 2 * lasts))
            if kind == "lost":
                fleet.gone(client, line["time"])
        elif kind == "left":
            fleet.gone(line["client"], line["time"])
        elif kind == "returned":
            fleet.seen(line["client"], line["time"])
    if not durations:
        raise UserError(f"In `{folder}` no job has ended yet; there is nothing to export.")
    durations += [(client, start, 2 * (end - start) + 1.0) for client, start in starts.values()]
    path = Path(file)
    written = [_write(path, "duration", sorted(durations))]
    if fleet.absences:
        everybody = {client for client, _, _ in durations} | set(fleet.absences)
        presences = [(client, *span) for client in sorted(everybody) for span in fleet.spans(client)]
        written.append(_write(path.with_name(f"{path.stem}-presence{path.suffix}"), "end", presences))
    return written


class _Presences:
    """When each client could be reached, as far as anybody noticed."""

    def __init__(self) -> None:
        self.absences: dict[ClientId, list[tuple[float, float]]] = {}

    def gone(self, client: ClientId, time: float) -> None:
        known = self.absences.setdefault(client, [])
        if not known or known[-1][1] < inf:
            known.append((time, inf))

    def seen(self, client: ClientId, time: float) -> None:
        known = self.absences.get(client)
        if known and known[-1][1] == inf:
            known[-1] = known[-1][0], max(time, known[-1][0] + _BLINK)

    def spans(self, client: ClientId) -> list[tuple[float, float]]:
        """The times between the absences. The end of the world is as good as never."""
        since, found = 0.0, []
        for start, end in self.absences.get(client, []):
            if start > since:
                found.append((since, start))
            since = end
        return [*found, (since, _FOR_EVER)] if since < inf else found


_FOR_EVER = 1e15


def _duration(start: float, finish: float) -> float:
    """What must be added to `start` to get `finish`, to the last digit."""
    lasts = finish - start
    for near in (lasts, nextafter(lasts, inf), nextafter(lasts, 0.0)):
        if start + near == finish:
            return near
    return lasts


def _write(path: Path, value: str, rows: list[tuple[Any, ...]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("client", "start", value))
    writer.writerows([client, repr(float(start)), repr(float(end))] for client, start, end in rows)
    try:
        replace_file(path, text.getvalue().encode())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from error
    return path
