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
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from afbs.types import UserError

SCHEMA = 1
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Evals:
    """One entry an evaluation. `per_class` has a row each, and no columns if the run does not tell."""

    time: Floats
    version: Ints
    wall: Floats
    accuracy: Floats
    loss: Floats
    per_class: Floats


@dataclass(frozen=True)
class Steps:
    """One entry a step. `scale` is the sum of the weights: λ for AFBS, 1 for a plain average."""

    time: Floats
    version: Ints
    wall: Floats
    used: Ints
    dropped: Ints
    rejected: Ints
    scale: Floats
    notes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Updates:
    """One entry an update that a step used or dropped. `step` is its row in `Steps`; a dropped one weighs nan."""

    step: Ints
    used: NDArray[np.bool_]
    client: Ints
    staleness: Ints
    examples: Ints
    order: Ints
    weight: Floats


@dataclass(frozen=True)
class Orders:
    """One entry an order. `finish` is when its update arrived or its client was lost; nan if neither has happened."""

    sequence: Ints
    client: Ints
    version: Ints
    start: Floats
    finish: Floats
    lost: NDArray[np.bool_]


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
        return float(horizon) if isinstance(horizon, int | float) else self.seconds

    @property
    def seconds(self) -> float:
        """How far the run has come in virtual time."""
        last = [column[-1] for column in (self.evals.time, self.steps.time, self.orders.start) if len(column)]
        return float(max([*last, float((self.end or {}).get("time") or 0.0)]))

    @property
    def target(self) -> float | None:
        target = (self.result or {}).get("target", _table(self.config, "evaluation").get("target"))
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
        """Columns `id`, `examples`, `cluster`, `latency` (or None), as far as the run wrote them."""
        return _table(self.meta, "clients")


class _Step(NamedTuple):
    time: float
    wall: float
    start: int
    used: int
    dropped: int
    rejected: int
    notes: Mapping[str, Any]


_COUNTS = ("start", "used", "dropped", "rejected")
_UPDATE_COLUMNS = ("client", "staleness", "examples", "order")
_MARK = 64
_NO_NOTES: Mapping[str, Any] = {}


class Place(NamedTuple):
    """How far `events.jsonl` has been read. `mark` are the last bytes read: a run that is taken up again cuts the file
    back, and it may have grown past `offset` before anybody looks."""

    offset: int = 0
    mark: bytes = b""


START = Place()


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
    return log.run(folder, meta, read_config(folder), read_result(folder))


def read_meta(folder: Path) -> dict[str, Any]:
    """`meta.json`, if it is of a schema this reader knows."""
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
    except FileNotFoundError:
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


class Log:
    """Collects events into columns, one at a time; flat arrays, for a run may have a million updates."""

    def __init__(self) -> None:
        self.unreadable = 0
        self._resumes = 0
        self._evals: dict[tuple[float, int], Event] = {}
        self._steps: dict[int, _Step] = {}
        self._flat = {name: array("q") for name in _UPDATE_COLUMNS}
        self._weight = array("d")
        self._dispatches: dict[int, tuple[int, int, float]] = {}
        self._finishes: dict[int, tuple[float, bool]] = {}
        self._confusion: Any = None
        self._end: Event | None = None

    def add(self, event: Event) -> None:
        """A step, an evaluation or an order that is told again replaces what was told before."""
        kind = event["event"]
        if kind in ("eval", "end") and event.get("confusion") is not None:
            self._confusion = event.pop("confusion")
        try:
            if kind == "dispatch":
                self._dispatches[event["sequence"]] = (event["client"], event["version"], event["time"])
            elif kind == "arrival":
                self._finishes[event["order"]] = (event["time"], False)
            elif kind == "lost":
                self._finishes[event["order"]] = (event["time"], True)
            elif kind == "step":
                self._add_step(event)
            elif kind == "eval":
                self._evals[_number(event, "time"), int(event["version"])] = event
            elif kind == "resume":
                self._resumes += 1
                self._end = None
            elif kind == "end":
                self._end = event
        except (KeyError, TypeError, ValueError):
            self.unreadable += 1

    def run(self, folder: Path, meta: Mapping[str, Any], config: Mapping[str, Any], result: Event | None) -> Run:
        steps, updates = self._step_columns()
        return Run(
            folder=folder,
            meta=meta,
            config=config,
            result=result,
            evals=self._eval_columns(),
            steps=steps,
            updates=updates,
            orders=self._order_columns(),
            confusion=_square(self._confusion),
            end=self._end,
            resumes=self._resumes,
            arrivals=sum(not lost for _, lost in self._finishes.values()),
            unreadable=self.unreadable,
        )

    def _add_step(self, event: Event) -> None:
        used, dropped = _table(event, "used"), _table(event, "dropped")
        sizes = len(used.get("client", ())), len(dropped.get("client", ()))
        start = len(self._weight)
        for name, column in self._flat.items():
            for part, size in zip((used, dropped), sizes, strict=True):
                column.extend(_sized(part.get(name), size, -1))
        self._weight.extend(_sized(used.get("weight"), sizes[0], math.nan))
        self._weight.extend([math.nan] * sizes[1])
        self._steps[int(event["version"])] = _Step(
            _number(event, "time"),
            _number(event, "wall"),
            start,
            *sizes,
            len(event.get("rejected") or ()),
            event.get("notes") or _NO_NOTES,
        )

    def _step_columns(self) -> tuple[Steps, Updates]:
        versions = sorted(self._steps)
        rows = [self._steps[version] for version in versions]
        start, used, dropped, rejected = (
            np.array([row[i] for row in rows], np.int64) for i in (_Step._fields.index(name) for name in _COUNTS)
        )
        size = used + dropped
        step = np.repeat(np.arange(len(rows)), size)
        place = np.arange(len(step)) - np.repeat(np.cumsum(size) - size, size)
        pick = np.repeat(start, size) + place
        weight = np.frombuffer(self._weight, np.float64)[pick] if len(pick) else np.empty(0)
        known = np.isfinite(weight)
        steps = Steps(
            time=np.array([row.time for row in rows], np.float64),
            version=np.array(versions, np.int64),
            wall=np.array([row.wall for row in rows], np.float64),
            used=used,
            dropped=dropped,
            rejected=rejected,
            scale=np.bincount(step[known], weight[known], len(rows)).astype(np.float64),
            notes=tuple(row.notes for row in rows),
        )
        flat = {name: np.array(column, np.int64)[pick] for name, column in self._flat.items()}
        return steps, Updates(step=step, used=place < np.repeat(used, size), weight=weight, **flat)

    def _eval_columns(self) -> Evals:
        rows = [self._evals[place] for place in sorted(self._evals)]
        classes = [row["per_class"] if isinstance(row.get("per_class"), list) else [] for row in rows]
        table = np.full((len(rows), max(map(len, classes), default=0)), np.nan)
        for i, row in enumerate(classes):
            table[i, : len(row)] = [math.nan if value is None else value for value in row]
        return Evals(
            time=_floats(rows, "time"),
            version=np.array([row["version"] for row in rows], np.int64),
            wall=_floats(rows, "wall"),
            accuracy=_floats(rows, "accuracy"),
            loss=_floats(rows, "loss"),
            per_class=table,
        )

    def _order_columns(self) -> Orders:
        sequence = sorted(self._dispatches)
        rows = [self._dispatches[number] for number in sequence]
        ends = [self._finishes.get(number, (math.nan, False)) for number in sequence]
        return Orders(
            sequence=np.array(sequence, np.int64),
            client=np.array([row[0] for row in rows], np.int64),
            version=np.array([row[1] for row in rows], np.int64),
            start=np.array([row[2] for row in rows], np.float64),
            finish=np.array([end[0] for end in ends], np.float64),
            lost=np.array([end[1] for end in ends], np.bool_),
        )


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


def _table(mapping: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = mapping.get(name)
    return table if isinstance(table, Mapping) else {}


def _sized(values: Any, size: int, blank: float) -> Sequence[Any]:
    """The column, or blanks where a step does not have it as long as the others."""
    return values if isinstance(values, list) and len(values) == size else [blank] * size


def _number(row: Event, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else math.nan


def _floats(rows: list[Event], name: str) -> Floats:
    return np.array([_number(row, name) for row in rows], np.float64)


def _square(table: Any) -> Ints | None:
    try:
        array = np.array(table, np.int64)
    except (TypeError, ValueError):
        return None
    return array if array.ndim == 2 and array.shape[0] == array.shape[1] and array.size else None
