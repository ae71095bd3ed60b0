"""A run's lines as columns: flat arrays, for a run may have a million updates."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from afbs.record.kinds import (
    ArrivalLine,
    ClientsLine,
    DispatchLine,
    EndLine,
    EvalLine,
    JoinedLine,
    LostLine,
    ResumeLine,
    StepLine,
    Told,
)

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
UNTOLD = -1
"""Stands for the reason of an update of which the record gives none."""
_MOST_REASONS = 100
_LONGEST_REASON = 120


@dataclass(frozen=True)
class Evals:
    """One entry an evaluation. `values` are the metrics by name; nan where one was not told.

    `per_class` has a row each, and no columns if the run does not tell.
    """

    time: Floats
    version: Ints
    wall: Floats
    values: Mapping[str, Floats]
    per_class: Floats

    def of(self, metric: str) -> Floats:
        """A metric; all of it nan if nothing is known."""
        return self.values.get(metric, np.full(len(self.time), np.nan))


@dataclass(frozen=True)
class Steps:
    """One entry a step. `scale` is the sum of the weights; `rejected` and `missing` are numbers of updates."""

    time: Floats
    version: Ints
    wall: Floats
    used: Ints
    dropped: Ints
    rejected: Ints
    missing: Ints
    scale: Floats
    notes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Updates:
    """One entry an update that a step used or dropped. `step` is its row in `Steps`; a dropped one weighs nan.

    `why` is the place of its reason among `reasons`, or `UNTOLD`.
    """

    step: Ints
    used: NDArray[np.bool_]
    client: Ints
    staleness: Ints
    examples: Ints
    order: Ints
    weight: Floats
    why: Ints
    reasons: tuple[str, ...]


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
    """Everything the lines say."""

    evals: Evals
    steps: Steps
    updates: Updates
    orders: Orders
    joined: tuple[JoinedLine, ...]
    confusion: Ints | None
    end: EndLine | None
    resumes: int
    arrivals: int
    fairness: tuple[ClientsLine, ...]
    told: Mapping[str, Floats]


class _Row(NamedTuple):
    """A step, and where its updates begin."""

    time: float
    wall: float
    start: int
    used: int
    dropped: int
    rejected: int
    missing: int
    notes: Mapping[str, Any]


_UPDATE_COLUMNS = ("client", "staleness", "examples", "order")


class Log:
    """Collects lines, one at a time."""

    def __init__(self) -> None:
        self._resumes = 0
        self._evals: dict[tuple[float, int], EvalLine] = {}
        self._steps: dict[int, _Row] = {}
        self._flat = {name: array("q") for name in (*_UPDATE_COLUMNS, "why")}
        self._weight = array("d")
        self._told: dict[str, dict[int, float]] = {}
        self._fairness: dict[tuple[float, int], ClientsLine] = {}
        self._reasons: dict[str, int] = {}
        self._dispatches: dict[int, DispatchLine] = {}
        self._finishes: dict[int, tuple[float, bool]] = {}
        self._joined: dict[int, JoinedLine] = {}
        self._confusion: Ints | None = None
        self._end: EndLine | None = None

    def add(self, said: Told) -> None:
        """A step, an evaluation or an order that is told again replaces what was told before."""
        match said:
            case DispatchLine():
                self._dispatches[said.order] = said
            case ArrivalLine():
                self._finishes[said.order] = (said.time, False)
            case LostLine():
                self._finishes[said.order] = (said.time, True)
            case StepLine():
                self._add_step(said)
            case EvalLine():
                self._evals[said.time, said.version] = said
            case ClientsLine():
                self._fairness[said.time, said.version] = said
            case JoinedLine():
                self._joined[said.client] = said
            case ResumeLine():
                self._resumes += 1
                self._end = None
            case EndLine():
                self._end = said
                self._confusion = said.confusion if said.confusion is not None else self._confusion
            case _:
                pass

    def columns(self) -> Columns:
        steps, updates = self._step_columns()
        return Columns(
            evals=self._eval_columns(),
            steps=steps,
            updates=updates,
            orders=self._order_columns(),
            joined=tuple(self._joined.values()),
            confusion=self._confusion,
            end=self._end,
            resumes=self._resumes,
            arrivals=sum(not lost for _, lost in self._finishes.values()),
            fairness=tuple(self._fairness[place] for place in sorted(self._fairness)),
            told=self._told_columns(updates),
        )

    def _add_step(self, step: StepLine) -> None:
        sizes = len(step.used.client), len(step.dropped.client)
        self._steps[step.version] = _Row(
            step.time, step.wall, len(self._weight), *sizes, step.rejected, step.missing, step.notes
        )
        for name, values in step.told.items():
            self._told.setdefault(name, {}).update(zip(step.used.order, values, strict=False))
        for batch, size in zip((step.used, step.dropped), sizes, strict=True):
            for name in _UPDATE_COLUMNS:
                self._flat[name].extend(getattr(batch, name))
            self._flat["why"].extend(map(self._reason, batch.why) if batch.why else [UNTOLD] * size)
            self._weight.extend(batch.weight or [math.nan] * size)

    def _told_columns(self, updates: Updates) -> dict[str, Floats]:
        """What clients said of their training, an entry for each of `updates`."""
        orders = updates.order.tolist()
        return {
            name: np.array([known.get(order, math.nan) for order in orders], np.float64)
            for name, known in self._told.items()
        }

    def _reason(self, why: str) -> int:
        known = self._reasons.get(why[:_LONGEST_REASON])
        if known is not None:
            return known
        named = why[:_LONGEST_REASON] if len(self._reasons) < _MOST_REASONS else "another reason"
        return self._reasons.setdefault(named, len(self._reasons))

    def _step_columns(self) -> tuple[Steps, Updates]:
        versions = sorted(self._steps)
        rows = [self._steps[version] for version in versions]
        start, used, dropped = (
            np.array([getattr(row, name) for row in rows], np.int64) for name in ("start", "used", "dropped")
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
            rejected=np.array([row.rejected for row in rows], np.int64),
            missing=np.array([row.missing for row in rows], np.int64),
            scale=np.bincount(step[known], weight[known], len(rows)).astype(np.float64),
            notes=tuple(row.notes for row in rows),
        )
        flat = {name: np.array(column, np.int64)[pick] for name, column in self._flat.items()}
        counted = place < np.repeat(used, size)
        return steps, Updates(step=step, used=counted, weight=weight, reasons=tuple(self._reasons), **flat)

    def _eval_columns(self) -> Evals:
        rows = [self._evals[place] for place in sorted(self._evals)]
        shares = np.full((len(rows), max((len(row.per_class) for row in rows), default=0)), np.nan)
        for i, row in enumerate(rows):
            shares[i, : len(row.per_class)] = row.per_class
        return Evals(
            time=np.array([row.time for row in rows], np.float64),
            version=np.array([row.version for row in rows], np.int64),
            wall=np.array([row.wall for row in rows], np.float64),
            values={
                name: np.array([row.values.get(name, math.nan) for row in rows], np.float64)
                for name in dict.fromkeys(name for row in rows for name in row.values)
            },
            per_class=shares,
        )

    def _order_columns(self) -> Orders:
        sequence = sorted(self._dispatches)
        rows = [self._dispatches[number] for number in sequence]
        ends = [self._finishes.get(number, (math.nan, False)) for number in sequence]
        return Orders(
            sequence=np.array(sequence, np.int64),
            client=np.array([row.client for row in rows], np.int64),
            version=np.array([row.version for row in rows], np.int64),
            start=np.array([row.time for row in rows], np.float64),
            finish=np.array([end[0] for end in ends], np.float64),
            lost=np.array([end[1] for end in ends], np.bool_),
        )
