"""A run's events as columns: flat arrays, for a run may have a million updates."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


class Columns(NamedTuple):
    """Everything the events say."""

    evals: Evals
    steps: Steps
    updates: Updates
    orders: Orders
    confusion: Ints | None
    end: Mapping[str, Any] | None
    resumes: int
    arrivals: int
    unreadable: int


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
_NO_NOTES: Mapping[str, Any] = {}


class Log:
    """Collects events, one at a time."""

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
                self._evals[number(event, "time"), int(event["version"])] = event
            elif kind == "resume":
                self._resumes += 1
                self._end = None
            elif kind == "end":
                self._end = event
        except (KeyError, TypeError, ValueError):
            self.unreadable += 1

    def columns(self) -> Columns:
        steps, updates = self._step_columns()
        return Columns(
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
        used, dropped = table(event, "used"), table(event, "dropped")
        sizes = len(used.get("client", ())), len(dropped.get("client", ()))
        start = len(self._weight)
        for name, column in self._flat.items():
            for part, size in zip((used, dropped), sizes, strict=True):
                column.extend(_sized(part.get(name), size, -1))
        self._weight.extend(_sized(used.get("weight"), sizes[0], math.nan))
        self._weight.extend([math.nan] * sizes[1])
        self._steps[int(event["version"])] = _Step(
            number(event, "time"),
            number(event, "wall"),
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


def table(mapping: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What `mapping` has under `name`, if that is a mapping too."""
    found = mapping.get(name)
    return found if isinstance(found, Mapping) else {}


def _sized(values: Any, size: int, blank: float) -> Sequence[Any]:
    """The column, or blanks where a step does not have it as long as the others."""
    return values if isinstance(values, list) and len(values) == size else [blank] * size


def number(row: Event, name: str) -> float:
    """nan for what is missing."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else math.nan


def _floats(rows: list[Event], name: str) -> Floats:
    return np.array([number(row, name) for row in rows], np.float64)


def _square(table: Any) -> Ints | None:
    try:
        array = np.array(table, np.int64)
    except (TypeError, ValueError):
        return None
    return array if array.ndim == 2 and array.shape[0] == array.shape[1] and array.size else None
