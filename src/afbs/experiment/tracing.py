"""What the clients of a run did, as the files that the `trace` latency and the `observed` availability read.

With them any other algorithm can be tried on the same fleet: `afbs export FOLDER --trace fleet.csv`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from math import inf, nextafter
from pathlib import Path
from typing import Any

from afbs.experiment.verifying import clients
from afbs.record.reader import read_config, read_meta
from afbs.record.recorded import setting
from afbs.record.seal import lines
from afbs.record.writer import replace_file
from afbs.types import ClientId, UserError

_BRIEFEST = 1e-6
"""The shortest duration that a trace may have."""
_FOR_EVER = 1e15
"""The end of the world is as good as never."""


def export_trace(folder: str | Path, file: str | Path) -> list[Path]:
    """Writes the durations to `file` and the presences beside it, if anybody was ever away, came late or was real; says
    what was written.

    A job that was lost has a duration that outlasts the client's presence, and one that was still under way when the
    run ended a duration that outlasts the run. Durations are such that a job that starts at the same moment ends at the
    same moment, to the last digit.
    """
    meta = read_meta(Path(folder))
    if meta.get("light"):
        raise UserError(
            f"`{folder}` has no trace: of its record only the evaluations were kept. The run's folder has it."
        )
    founders = [client.id for client in clients(meta)]
    real = setting(read_config(folder), "transport", "name") not in (None, "simulated")
    events = Path(folder) / "events.jsonl"
    if not events.is_file():
        raise UserError(f"`{folder}` has no record: there is no `events.jsonl`.")
    starts: dict[int, tuple[ClientId, float]] = {}
    durations: list[tuple[ClientId, float, float]] = []
    fleet = _Presences(founders)
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
            durations.append((client, start, max(lasts if kind == "arrival" else 2 * lasts, _BRIEFEST)))
            if kind == "lost":
                fleet.gone(client, line["time"])
        elif kind == "left":
            fleet.gone(line["client"], line["time"])
        elif kind == "returned":
            fleet.seen(line["client"], line["time"])
        elif kind == "joined":
            fleet.joined(line["client"], line["time"])
    if not durations:
        raise UserError(f"In `{folder}` no job has ended yet; there is nothing to export.")
    durations += [(client, start, 2 * (end - start) + 1.0) for client, start in starts.values()]
    path = Path(file)
    written = [_write(path, "duration", sorted(durations))]
    presences = fleet.rows()
    if real or len(presences) > len(founders):
        written.append(_write(path.with_name(f"{path.stem}-presence{path.suffix}"), "end", presences))
    return written


class _Presences:
    """When each client could be reached, as far as anybody noticed."""

    def __init__(self, founders: Sequence[ClientId]) -> None:
        self._since: dict[ClientId, float] = dict.fromkeys(founders, 0.0)
        self._absences: dict[ClientId, list[tuple[float, float]]] = {}

    def joined(self, client: ClientId, time: float) -> None:
        self._since.setdefault(client, time)

    def gone(self, client: ClientId, time: float) -> None:
        known = self._absences.setdefault(client, [])
        if not known or known[-1][1] < inf:
            known.append((time, inf))

    def seen(self, client: ClientId, time: float) -> None:
        """Whoever was lost with a job and is given another one at that moment was away for no time at all."""
        known = self._absences.get(client)
        if known and known[-1][1] == inf:
            known[-1] = known[-1][0], time

    def rows(self) -> list[tuple[ClientId, float, float]]:
        return [(client, *span) for client in sorted(self._since) for span in self._spans(client)]

    def _spans(self, client: ClientId) -> Iterator[tuple[float, float]]:
        """The times between the absences."""
        since = self._since[client]
        for start, end in self._absences.get(client, []):
            if start > since:
                yield since, start
            elif start == 0:
                yield -1.0, 0.0  # known from the beginning, and away
            since = end
        if since < inf:
            yield since, _FOR_EVER


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
