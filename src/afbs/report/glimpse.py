"""How a run stands, from its small files and the last bytes of its record."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from afbs.record import reader
from afbs.record.kinds import EndLine, EvalLine, OtherLine, ResumeLine, StepLine
from afbs.record.recorded import metrics_of, versions_of
from afbs.report.words import clip
from afbs.types import UserError

SILENT_SECONDS = 60.0
UNREADABLE = "unreadable"


class Glimpse(NamedTuple):
    """A run as it was at `stamp`."""

    folder: Path
    stamp: object
    about: Mapping[str, Any]
    end: EndLine | None

    def line(self) -> dict[str, Any]:
        """For the list of runs. Time passes, so the state may change though nothing was written."""
        return {**self.about, "state": state_of(self.folder, self.end), "age": round(age(self.folder))}


def glimpse(folder: Path, before: Glimpse | None = None, most: int = 1 << 17) -> Glimpse:
    """`before` is good enough as long as nothing was written since."""
    sizes = [_status(folder / name) for name in ("events.jsonl", "result.json", "meta.json")]
    stamp = tuple(status and (status.st_size, status.st_mtime_ns, status.st_ino) for status in sizes)
    if before is not None and before.stamp == stamp:
        return before
    meta = reader.read_meta(folder)
    size = sizes[0].st_size if sizes[0] else 0
    last = reader.tail(folder, reader.Place(max(0, size - most))).lines
    times = [said.time for said in last if not isinstance(said, ResumeLine | OtherLine)]
    metric = metrics_of(meta)[0]
    values = [said.values.get(metric.name) for said in last if isinstance(said, EvalLine)]
    ends = [said for said in last if isinstance(said, EndLine | ResumeLine)]
    versions = [said.version for said in last if isinstance(said, StepLine)]
    about = {
        "name": clip(meta.get("name") or folder.name),
        "algorithm": clip(meta.get("algorithm") or "unknown", 60),
        "seed": meta.get("seed"),
        "created": clip(meta.get("created") or "", 40),
        "progress": progress(
            max(times, default=0.0), meta.get("horizon", 0.0), max(versions, default=0), goal_of(folder)
        ),
        "value": metric.text(values[-1] if values else _final(folder)),
    }
    end = ends[-1] if ends else None
    return Glimpse(folder, stamp, about, end if isinstance(end, EndLine) else None)


def goal_of(folder: Path) -> int:
    """After how many versions the run ends; 0 if it ends by the clock, or nobody knows."""
    try:
        return versions_of(reader.read_config(folder))
    except UserError:
        return 0


def progress(time: float, horizon: float, version: int, goal: int) -> float | None:
    """The share that is done: by the clock or by the versions, whichever will end the run sooner."""
    shares = [done / whole for done, whole in ((time, horizon), (version, goal)) if whole]
    return min(1.0, max(shares)) if shares else None


def state_of(folder: Path, end: EndLine | None) -> str:
    """`running`, `ended`, `interrupted`, or `silent`: nothing was written for a while, so it may have been killed."""
    if end is not None:
        return "interrupted" if end.reason == "interrupted" else "ended"
    if _status(folder / "result.json") is not None:
        return "ended"
    return "running" if age(folder) < SILENT_SECONDS else "silent"


def age(folder: Path) -> float:
    """Seconds since the run last wrote; for ever where it has never."""
    known = [_status(folder / name) for name in ("events.jsonl", "meta.json")]
    written = next((status.st_mtime for status in known if status is not None), 0.0)
    return max(0.0, time.time() - written)


def _final(folder: Path) -> float | None:
    try:
        return (reader.read_result(folder) or {}).get("final")
    except UserError:
        return None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None
