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
_MOST = 1 << 62


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
                order = whole(event["sequence"])
                self._dispatches[order] = (whole(event["client"]), whole(event["version"]), real(event["time"]))
            elif kind == "arrival":
                self._finishes[whole(event["order"])] = (real(event["time"]), False)
            elif kind == "lost":
                self._finishes[whole(event["order"])] = (real(event["time"]), True)
            elif kind == "step":
                self._add_step(event)
            elif kind == "eval":
                self._evals[real(event["time"]), whole(event["version"])] = event
            elif kind == "resume":
                self._resumes += 1
                self._end = None
            elif kind == "end":
                self._end = event
        except (KeyError, TypeError, ValueError, OverflowError):
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
        # Everything is looked at before anything is kept: a step that cannot be read must leave no half of itself.
        columns = [
            array("q", [*_sized(used.get(name), sizes[0], -1), *_sized(dropped.get(name), sizes[1], -1)])
            for name in _UPDATE_COLUMNS
        ]
        weight = array("d", [*_sized(used.get("weight"), sizes[0], math.nan), *[math.nan] * sizes[1]])
        self._steps[whole(event["version"])] = _Step(
            real(event["time"]),
            number(event, "wall"),
            len(self._weight),
            *sizes,
            len(event.get("rejected") or ()),
            table(event, "notes"),
        )
        for flat, column in zip(self._flat.values(), columns, strict=True):
            flat.extend(column)
        self._weight.extend(weight)

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
        shares = np.full((len(rows), max(map(len, classes), default=0)), np.nan)
        for i, row in enumerate(classes):
            shares[i, : len(row)] = [value if isinstance(value, int | float) else math.nan for value in row]
        return Evals(
            time=_floats(rows, "time"),
            version=np.array([row["version"] for row in rows], np.int64),
            wall=_floats(rows, "wall"),
            accuracy=_floats(rows, "accuracy"),
            loss=_floats(rows, "loss"),
            per_class=shares,
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


def number(row: Mapping[str, Any], name: str) -> float:
    """nan for what is missing or not finite."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def whole(value: Any) -> int:
    """A whole number that fits a column, or an error."""
    if type(value) is int and -_MOST < value < _MOST:
        return value
    raise ValueError(value)


def real(value: Any) -> float:
    """A finite number, or an error."""
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ValueError(value)


def _floats(rows: list[Event], name: str) -> Floats:
    return np.array([number(row, name) for row in rows], np.float64)


def _square(table: Any) -> Ints | None:
    try:
        array = np.array(table, np.int64)
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.ndim == 2 and array.shape[0] == array.shape[1] and array.size else None
