"""Follows a run that may still be going: reads what was appended and remembers only what a page shows.

Everything that grows with the run is bounded: evaluations are thinned when asked for, of steps and finished jobs the
latest are kept. A line is read once, however many look on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afbs.record import reader
from afbs.record.columns import Event, number, real, table, whole
from afbs.report.digest import thin

FLUSHES = 200
ROWS = 20_000
"""How many updates of the latest steps one message may hold."""
LANES = 40
SILENT_SECONDS = 60.0


class Cursor(NamedTuple):
    """What one onlooker has been told: of which telling of the run, how many evaluations and steps."""

    generation: int = -1
    evals: int = 0
    flushes: int = 0


class Follower:
    """One run. `poll` reads on; `since` says what is new."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.meta = reader.read_meta(folder)
        self.config = reader.read_config(folder)
        self.horizon = _or_zero(number(self.meta, "horizon"))
        clients = reader.clients_of(self.meta)
        pairs = zip(clients.get("id", []), clients.get("cluster", []), strict=False)
        self._cluster_of = {client: cluster or 0 for client, cluster in pairs} if self._clustered() else {}
        self._place = reader.Place()
        self.generation = 0
        self._forget()

    def poll(self, most: int = 1 << 21) -> bool:
        """Read at most `most` bytes more; whether there was anything."""
        found = reader.tail(self.folder, self._place, most)
        if found.restarted:
            self.generation += 1
            self._forget()
        moved = found.place != self._place
        self._place = found.place
        for event in found.events:
            try:
                self._add(event)
            except (KeyError, TypeError, ValueError):
                self._unreadable += 1
        self._unreadable += found.unreadable
        return moved

    @property
    def behind(self) -> int:
        """How many bytes are still to be read."""
        try:
            return max(0, (self.folder / "events.jsonl").stat().st_size - self._place.offset)
        except OSError:
            return 0

    def state(self) -> str:
        return state_of(self.folder, self._end)

    def seen(self) -> object:
        """Changes whenever there is something new to say."""
        return self.generation, self._place, self.state()

    def since(self, cursor: Cursor) -> tuple[dict[str, Any], Cursor]:
        """Everything for a new onlooker (`fresh`), else the evaluations and steps that it has not been told of."""
        fresh = cursor.generation != self.generation
        told = Cursor(self.generation) if fresh else cursor
        new = self._evals[told.evals :]
        if len(new) > 1000:
            columns = np.array([row[:3] for row in new], np.float64)
            new = [new[i] for i in thin(columns[:, 0], columns[:, 2], 1000)]
        missed = min(self._flushed - told.flushes, len(self._flushes))
        flushes = list(self._flushes)[len(self._flushes) - missed :]
        while len(flushes) > 1 and sum(len(flush["client"]) for flush in flushes) > ROWS:
            flushes = flushes[(len(flushes) + 1) // 2 :]
        message = {
            "fresh": fresh,
            "evals": new,
            "flushes": flushes,
            "now": self._now(),
        }
        return message, Cursor(self.generation, len(self._evals), self._flushed)

    def _now(self) -> dict[str, Any]:
        share = min(1.0, self._time / self.horizon) if self.horizon else None
        running = self.state() == "running"
        return {
            "state": self.state(),
            "progress": share,
            "time": self._time,
            "horizon": self.horizon,
            "wall": self._wall,
            "left": self._wall / share - self._wall if share and self._wall and running else None,
            "version": self._version,
            "counts": dict(self._counts),
            "buffer": list(self._buffer)[-400:],
            "room": self._room(),
            "lanes": self._lanes(),
            "reason": (self._end or {}).get("reason"),
            "behind": self.behind,
            "unreadable": self._unreadable,
            "target": table(self.config, "evaluation").get("target"),
        }

    def _room(self) -> int:
        """How many updates the next step waits for, as far as the settings or the last step tell."""
        size = table(self.config, "algorithm").get("buffer_size")
        if isinstance(size, int) and self.meta.get("algorithm") in ("afbs", "fedbuff", "ca2fl"):
            return size
        return len(self._flushes[-1]["client"]) if self._flushes else 0

    def _lanes(self) -> list[list[Any]]:
        """Rows [client, start, finish or null, fate] of the clients that were busy last, longest under way first."""
        busy = sorted(self._flying.values(), key=lambda row: row[1])
        recent = list(self._done)[-12 * LANES :]
        clients = dict.fromkeys([row[0] for row in busy] + [row[0] for row in reversed(recent)])
        chosen = set(list(clients)[:LANES])
        return [row for row in (*recent, *busy) if row[0] in chosen]

    def _forget(self) -> None:
        self._time = self._wall = 0.0
        self._version = 0
        self._unreadable = 0
        self._evals: list[list[Any]] = []
        self._flushes: deque[dict[str, Any]] = deque(maxlen=FLUSHES)
        self._flushed = 0
        self._buffer: list[list[Any]] = []
        self._flying: dict[int, list[Any]] = {}
        self._done: deque[list[Any]] = deque(maxlen=2000)
        self._row_of: dict[int, list[Any]] = {}
        self._counts = {"dispatched": 0, "arrived": 0, "used": 0, "dropped": 0, "lost": 0, "steps": 0}
        self._end: Mapping[str, Any] | None = None

    def _add(self, event: Event) -> None:
        kind = event["event"]
        self._time = max(self._time, _or_zero(number(event, "time")))
        self._wall = max(self._wall, _or_zero(number(event, "wall")))
        if kind == "dispatch":
            order = whole(event["sequence"])
            self._flying[order] = [whole(event["client"]), real(event["time"]), None, "training"]
            self._counts["dispatched"] += 1
        elif kind == "arrival":
            client, staleness = whole(event["client"]), whole(event["version"]) - whole(event["base_version"])
            self._buffer.append([client, staleness, whole(event["examples"]), self._cluster_of.get(client, 0)])
            self._counts["arrived"] += 1
            self._finish(whole(event["order"]), real(event["time"]), "waiting")
        elif kind == "lost":
            self._finish(whole(event["order"]), real(event["time"]), "lost")
            self._counts["lost"] += 1
        elif kind == "step":
            self._step(event)
        elif kind == "eval":
            scores = [number(event, name) for name in ("accuracy", "loss", "wall")]
            self._evals.append([real(event["time"]), whole(event["version"]), *scores])
        elif kind == "resume":
            self._end = None
        elif kind == "end":
            self._end = event

    def _finish(self, order: int, time: float, fate: str) -> None:
        row = self._flying.pop(order, None)
        if row is None:
            return
        if len(self._done) == self._done.maxlen:
            self._row_of.pop(self._done[0][4], None)
        row[2], row[3] = time, fate
        row.append(order)
        self._done.append(row)
        self._row_of[order] = row

    def _step(self, event: Event) -> None:
        used, dropped = table(event, "used"), table(event, "dropped")
        names = ("client", "staleness", "examples", "order")
        columns = {name: [whole(value) for value in (*used[name], *dropped.get(name, ()))] for name in names}
        kept = len(used["client"])
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("columns of different length")
        clusters = [self._cluster_of.get(client, 0) for client in columns["client"]]
        why = explained(columns["staleness"], columns["examples"], clusters, kept, self._selects())
        for i, order in enumerate(columns.pop("order")):
            if order in self._row_of:
                self._row_of[order][3] = "used" if i < kept else "dropped"
        version, time = whole(event["version"]), real(event["time"])
        self._flushes.append({"version": version, "time": time, "kept": kept, "cluster": clusters, **columns, **why})
        self._flushed += 1
        self._version = version
        self._counts["steps"] += 1
        self._counts["used"] += kept
        self._counts["dropped"] += len(clusters) - kept
        self._buffer.clear()

    def _selects(self) -> bool:
        return self.meta.get("algorithm") == "afbs"

    def _clustered(self) -> bool:
        return table(self.config, "algorithm").get("clustering") is not False


def explained(
    staleness: list[int], examples: list[int], clusters: list[int], kept: int, selects: bool
) -> dict[str, Any]:
    """Why each update counted or did not, and the best of each cluster: the one by which the others are judged.

    The first `kept` entries counted. Without selection everything counts, and there is no best one.
    """
    if not selects:
        return {"best": [], "why": ["counted"] * kept + ["dropped"] * (len(staleness) - kept)}
    best: dict[int, int] = {}
    for i, cluster in enumerate(clusters):
        rank = (examples[i] / (staleness[i] + 1) ** 2, -staleness[i])
        leader = best.get(cluster)
        if leader is None or rank > (examples[leader] / (staleness[leader] + 1) ** 2, -staleness[leader]):
            best[cluster] = i
    why = []
    for i, cluster in enumerate(clusters):
        leader = best[cluster]
        inferior = examples[i] < examples[leader] and staleness[i] > staleness[leader]
        if i == leader:
            why.append("best of its cluster")
        elif not inferior:
            why.append("fresh enough" if staleness[i] <= staleness[leader] else "large enough")
        else:
            why.append(f"staler and smaller than the best{', but drawn to survive' if i < kept else ''}")
    return {"best": sorted(best.values()), "why": why}


class Glimpse(NamedTuple):
    """How a run stands, from its small files and the last bytes of its record, as it was at `stamp`."""

    folder: Path
    stamp: object
    about: Mapping[str, Any]
    end: Mapping[str, Any] | None

    def line(self) -> dict[str, Any]:
        """For the list of runs. Time passes, so the state may change though nothing was written."""
        return {**self.about, "state": state_of(self.folder, self.end), "age": round(age(self.folder))}


def glimpse(folder: Path, before: Glimpse | None = None, most: int = 1 << 17) -> Glimpse:
    """`before` is good enough as long as nothing was written since."""
    path = folder / "events.jsonl"
    status = path.stat() if path.exists() else None
    stamp = (status and (status.st_size, status.st_mtime_ns), (folder / "result.json").exists())
    if before is not None and before.stamp == stamp:
        return before
    meta = reader.read_meta(folder)
    last = reader.tail(folder, reader.Place(max(0, status.st_size - most) if status else 0)).events
    times = [event["time"] for event in last if isinstance(event.get("time"), int | float)]
    accuracies = [event.get("accuracy") for event in last if event["event"] == "eval"]
    ends = [event for event in last if event["event"] in ("end", "resume")]
    result = reader.read_result(folder) or {}
    horizon = number(meta, "horizon")
    about = {
        "name": str(meta.get("name") or folder.name)[:120],
        "algorithm": str(meta.get("algorithm") or "unknown")[:60],
        "seed": meta.get("seed"),
        "created": str(meta.get("created") or "")[:40],
        "progress": min(1.0, max(times) / horizon) if times and horizon > 0 else None,
        "accuracy": accuracies[-1] if accuracies else result.get("final_accuracy"),
    }
    return Glimpse(folder, stamp, about, ends[-1] if ends and ends[-1]["event"] == "end" else None)


def state_of(folder: Path, end: Mapping[str, Any] | None) -> str:
    """`running`, `ended`, `interrupted`, or `silent`: nothing was written for a while, so it may have been killed."""
    if end is not None:
        return "interrupted" if end.get("reason") == "interrupted" else "ended"
    if (folder / "result.json").exists():
        return "ended"
    return "running" if age(folder) < SILENT_SECONDS else "silent"


def _or_zero(value: float) -> float:
    return value if value > 0 else 0.0


def age(folder: Path) -> float:
    """Seconds since the run last wrote."""
    try:
        written = (folder / "events.jsonl").stat().st_mtime
    except OSError:
        written = (folder / "meta.json").stat().st_mtime
    return max(0.0, time.time() - written)
