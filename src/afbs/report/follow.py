"""Follows a run that may still be going: reads what was appended and remembers only what a page shows.

Everything that grows with the run is bounded: evaluations are thinned when asked for, of steps and finished jobs the
latest are kept. A line is read once, however many look on.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afbs.record import reader
from afbs.record.kinds import (
    ArrivalLine,
    DispatchLine,
    EndLine,
    EvalLine,
    FleetLine,
    JoinedLine,
    LeftLine,
    LostLine,
    ResumeLine,
    StepLine,
    Told,
)
from afbs.record.recorded import metrics_of, target_of
from afbs.report.glimpse import UNREADABLE, goal_of, progress, state_of
from afbs.report.measures import thin
from afbs.report.words import clip
from afbs.types import UserError

BEST = "best of its cluster"
"""The reason of an update by which the others of its cluster are judged."""
FLUSHES = 200
ROWS = 20_000
"""How many updates of the latest steps one message may hold."""
LANES = 40
LATELY = 100
"""How many arrivals the usual latency and staleness are taken from."""


class Cursor(NamedTuple):
    """What one onlooker has been told: of which telling of the run, how many evaluations and steps."""

    generation: int = -1
    evals: int = 0
    flushes: int = 0


class Follower:
    """One run. `poll` reads on; `since` says what is new."""

    def __init__(self, folder: Path):
        self.folder = folder
        meta = reader.read_meta(folder)
        try:
            self._target = target_of(reader.read_config(folder))
        except UserError:
            self._target = None
        self._metrics = metrics_of(meta)
        self.horizon = meta.get("horizon", 0.0)
        self._goal = goal_of(folder)
        clients = meta.get("clients") or {"id": []}
        self._founders = clients["id"]
        pairs = zip(clients["id"], clients.get("cluster") or [], strict=False)
        self._cluster_of = {client: cluster or 0 for client, cluster in pairs}
        self._place = reader.Place()
        self._problem = ""
        self.generation = 0
        self._forget()

    def poll(self, most: int = 1 << 21) -> bool:
        """Read at most `most` bytes more; whether there was anything."""
        try:
            found = reader.tail(self.folder, self._place, most)
        except UserError as error:
            self._problem = str(error)
            return False
        self._problem = ""
        if found.restarted:
            self.generation += 1
            self._forget()
        moved = found.place != self._place
        self._place = found.place
        for said in found.lines:
            self._add(said)
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
        return UNREADABLE if self._problem else state_of(self.folder, self._end)

    def seen(self) -> object:
        """Changes whenever there is something new to say."""
        return self.generation, self._place, self.state()

    def since(self, cursor: Cursor) -> tuple[dict[str, Any], Cursor]:
        """Everything for a new onlooker (`fresh`), else the evaluations and steps that it has not been told of."""
        fresh = cursor.generation != self.generation
        already = Cursor(self.generation) if fresh else cursor
        new = self._evals[already.evals :]
        if len(new) > 1000:
            columns = np.array([[row[0], row[3]] for row in new], np.float64)
            new = [new[i] for i in thin(columns[:, 0], columns[:, 1], 1000)]
        missed = min(self._flushed - already.flushes, len(self._flushes))
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
        share = progress(self._time, self.horizon, self._version, self._goal)
        state = self.state()
        return {
            "state": state,
            "remark": clip(self._problem, 300),
            "progress": share,
            "time": self._time,
            "horizon": 0.0 if self._goal else self.horizon,
            "goal": self._goal,
            "fleet": self._fleet_now(),
            "wall": self._wall,
            "left": self._wall / share - self._wall if share and self._wall and state == "running" else None,
            "version": self._version,
            "counts": dict(self._counts),
            "buffer": list(self._buffer)[-400:],
            "room": self._room,
            "lanes": self._lanes(),
            "reason": clip(self._end.reason, 60) if self._end else None,
            "behind": self.behind,
            "unreadable": self._unreadable,
            "target": self._target,
            "metrics": [
                {"name": each.name, "title": clip(each.called, 40), "axis": clip(each.axis, 60), "sign": each.sign}
                | {"share": each.share, "unit": clip("%" if each.share else each.unit, 20)}
                for each in self._metrics
            ],
        }

    def _fleet_now(self) -> dict[str, Any] | None:
        """Of real clients: how many are there, how long an order takes, how stale updates are, and what was moved."""
        if self._fleet is None:
            return None
        return {
            **self._fleet._asdict(),
            "known": len(self._known),
            "latency": list(np.quantile([late[0] for late in self._lately], (0.5, 1.0))) if self._lately else None,
            "staleness": float(np.mean([late[1] for late in self._lately])) if self._lately else None,
        }

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
        self._room = 0
        self._flying: dict[int, list[Any]] = {}
        self._done: deque[list[Any]] = deque(maxlen=2000)
        self._row_of: dict[int, list[Any]] = {}
        names = ("dispatched", "arrived", "used", "dropped", "rejected", "missing", "lost", "left", "steps")
        self._counts = dict.fromkeys(names, 0)
        self._end: EndLine | None = None
        self._fleet: FleetLine | None = None
        self._known = set(self._founders)
        self._lately: deque[tuple[float, int]] = deque(maxlen=LATELY)

    def _add(self, said: Told) -> None:
        match said:
            case DispatchLine():
                self._flying[said.order] = [said.client, said.time, None, "training"]
                self._counts["dispatched"] += 1
            case ArrivalLine():
                cluster = self._cluster_of.get(said.client, 0)
                self._buffer.append([said.client, said.staleness, said.examples, cluster])
                self._counts["arrived"] += 1
                if said.order in self._flying:
                    self._lately.append((said.time - self._flying[said.order][1], said.staleness))
                self._finish(said.order, said.time, "waiting")
            case LostLine():
                self._finish(said.order, said.time, "lost")
                self._counts["lost"] += 1
            case StepLine():
                self._step(said)
            case EvalLine():
                values = [said.values.get(metric.name) for metric in self._metrics]
                self._evals.append([said.time, said.version, said.wall, *values])
            case JoinedLine():
                self._cluster_of[said.client] = said.cluster
                self._known.add(said.client)
            case LeftLine():
                self._counts["left"] += 1
            case FleetLine():
                self._fleet = said
            case ResumeLine():
                self._end = None
            case EndLine():
                self._end = said
            case _:
                return
        self._time = max(self._time, getattr(said, "time", 0.0))
        self._wall = max(self._wall, getattr(said, "wall", 0.0))

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

    def _step(self, step: StepLine) -> None:
        used, dropped = step.used, step.dropped
        for batch, fate in ((used, "used"), (dropped, "dropped")):
            for order in batch.order:
                if order in self._row_of:
                    self._row_of[order][3] = fate
        client = used.client + dropped.client
        why = [clip(text, 80) for batch in (used, dropped) for text in (batch.why or [""] * len(batch.client))]
        self._flushes.append(
            {
                "version": step.version,
                "time": step.time,
                "kept": len(used.client),
                "client": client,
                "staleness": used.staleness + dropped.staleness,
                "examples": used.examples + dropped.examples,
                "cluster": [self._cluster_of.get(one, 0) for one in client],
                "why": why,
                "best": [i for i, text in enumerate(why) if text == BEST],
            }
        )
        self._flushed += 1
        self._version = step.version
        self._counts["steps"] += 1
        self._counts["used"] += len(used.client)
        self._counts["dropped"] += len(dropped.client)
        self._counts["rejected"] += step.rejected
        self._counts["missing"] += step.missing
        # What the last step waited for, the next one will wait for too, as far as the record tells.
        self._room = len(self._buffer)
        self._buffer.clear()
