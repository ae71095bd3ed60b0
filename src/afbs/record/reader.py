"""Reads a run folder, as `docs/run-folder.md` describes it; while the run goes on, after it ended, or after it died.

`read` gives a whole run as columns, `events` its lines one by one, `tail` what was appended since an offset. A line
that cannot be read (a torn last one, say) is skipped and counted. A resumed run may tell a part of itself twice; the
later telling counts.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afbs.record.columns import Evals, Event, Ints, Log, Orders, Steps, Updates, number, table
from afbs.record.schema import SCHEMA
from afbs.types import UserError


@dataclass(frozen=True)
class Run:
    """Everything a run folder says. `result` is None until the run has ended."""

    folder: Path
    meta: Mapping[str, Any]
    config: Mapping[str, Any]
    result: Mapping[str, Any] | None
    evals: Evals
    steps: Steps
    updates: Updates
    orders: Orders
    confusion: Ints | None
    end: Mapping[str, Any] | None
    resumes: int
    arrivals: int
    unreadable: int

    @property
    def name(self) -> str:
        return str(self.meta.get("name") or self.folder.name)

    @property
    def algorithm(self) -> str:
        return str(self.meta.get("algorithm") or "unknown")

    @property
    def seed(self) -> int | None:
        seed = self.meta.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def horizon(self) -> float:
        horizon = self.meta.get("horizon")
        return float(horizon) if isinstance(horizon, int | float) and 0 < horizon < math.inf else self.seconds

    @property
    def seconds(self) -> float:
        """How far the run has come in virtual time."""
        last = [column[-1] for column in (self.evals.time, self.steps.time, self.orders.start) if len(column)]
        end = number(self.end or {}, "time")
        return float(max([*last, end if math.isfinite(end) else 0.0]))

    @property
    def target(self) -> float | None:
        target = (self.result or {}).get("target", table(self.config, "evaluation").get("target"))
        return float(target) if isinstance(target, int | float) else None

    @property
    def best_accuracy(self) -> float:
        known = self.evals.accuracy[np.isfinite(self.evals.accuracy)]
        return float(known.max()) if len(known) else math.nan

    @property
    def final_accuracy(self) -> float:
        known = self.evals.accuracy[np.isfinite(self.evals.accuracy)]
        return float(known[-1]) if len(known) else math.nan

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the first evaluation at or above `target`, or None."""
        reached = np.flatnonzero(self.evals.accuracy >= target)
        return float(self.evals.time[reached[0]]) if len(reached) else None

    @cached_property
    def clients(self) -> Mapping[str, Any]:
        """Columns `id`, `examples`, `cluster`, `latency`, as far as the run wrote them."""
        return clients_of(self.meta)


class Place(NamedTuple):
    """How far `events.jsonl` has been read. `mark` are the last bytes read: a run that is taken up again cuts the file
    back, and it may have grown past `offset` before anybody looks."""

    offset: int = 0
    mark: bytes = b""


START = Place()
_MARK = 64


class Tail(NamedTuple):
    """`place` is where to go on next time. `restarted`: the file was cut back, so everything before is void."""

    events: list[Event]
    place: Place
    unreadable: int = 0
    restarted: bool = False


def is_run(folder: Path) -> bool:
    return (folder / "meta.json").is_file()


def find(folders: Iterable[str | Path]) -> list[Path]:
    """The run folders among and below `folders`, in the order given, those of one folder by name."""
    found: dict[Path, None] = {}
    for given in folders:
        folder = Path(given)
        if not folder.is_dir():
            raise UserError(f"`{folder}` is not a folder. Name a run folder, or a folder of runs.")
        inside = [folder] if is_run(folder) else below(folder)
        if not inside:
            raise UserError(f"`{folder}` holds no run: there is no `meta.json` in it or in the folders below.")
        found.update(dict.fromkeys(inside))
    if not found:
        raise UserError("Name at least one run folder.")
    return list(found)


def below(folder: Path) -> list[Path]:
    """The run folders below `folder`, by name. Links are not followed, and nothing inside of a run is searched."""
    found = []
    for path, folders, files in os.walk(folder):
        if "meta.json" in files:
            found.append(Path(path))
            folders.clear()
    return sorted(found)


def read(folder: str | Path) -> Run:
    """The whole run as columns."""
    folder = Path(folder)
    meta = read_meta(folder)
    log = Log()
    for event in _lines(folder / "events.jsonl", log):
        log.add(event)
    return Run(folder, meta, read_config(folder), read_result(folder), *log.columns())


def read_meta(folder: Path) -> dict[str, Any]:
    """`meta.json`, if it is of a schema this reader knows."""
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"`{folder}` is not a run folder: it has no `meta.json`.") from None
    except ValueError:
        raise UserError(f"`{folder / 'meta.json'}` cannot be read: it is not JSON.") from None
    schema = meta.get("schema") if isinstance(meta, dict) else None
    if schema != SCHEMA:
        raise UserError(f"`{folder}` has schema {schema!r}; this version of afbs reads schema {SCHEMA}.")
    return dict(meta)


def read_config(folder: Path) -> dict[str, Any]:
    """`config.toml`; empty where it is missing or broken, for the events still tell what happened."""
    try:
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def read_result(folder: Path) -> dict[str, Any] | None:
    """`result.json`; None until the run has ended."""
    try:
        result = json.loads((folder / "result.json").read_bytes())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def clients_of(meta: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of `meta.json` about clients that are as long as there are clients, and hold numbers or null."""
    known = table(meta, "clients")
    ids = known.get("id")
    if not isinstance(ids, list) or not all(type(client) is int for client in ids):
        return {}
    columns = {name: column for name, column in known.items() if isinstance(column, list) and len(column) == len(ids)}
    return {
        name: column
        for name, column in columns.items()
        if all(value is None or isinstance(value, int | float) for value in column)
    }


def events(folder: str | Path) -> Iterator[Event]:
    """Every readable line, in order, without holding more than one."""
    return _lines(Path(folder) / "events.jsonl", Log())


def tail(folder: str | Path, place: Place = START, most: int = 1 << 22) -> Tail:
    """What was appended since `place`, at most about `most` bytes of it; an unfinished line waits for next time."""
    path = Path(folder) / "events.jsonl"
    try:
        with path.open("rb") as file:
            file.seek(place.offset - len(place.mark))
            restarted = file.read(len(place.mark)) != place.mark
            start = 0 if restarted else place.offset
            file.seek(start)
            chunk = file.read(most)
            if chunk and b"\n" not in chunk:
                chunk += file.readline()
    except FileNotFoundError:
        return Tail([], Place(), restarted=place.offset > 0)
    whole = chunk[: chunk.rfind(b"\n") + 1]
    parsed = [_parse(line) for line in whole.splitlines() if line.strip()]
    good = [event for event in parsed if event is not None]
    mark = whole[-_MARK:] or (b"" if restarted else place.mark)
    return Tail(good, Place(start + len(whole), mark), len(parsed) - len(good), restarted)


def _lines(path: Path, log: Log) -> Iterator[Event]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            event = _parse(line)
            if event is not None:
                yield event
            elif line.strip():
                log.unreadable += 1


def _parse(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
