"""A run as its folder tells it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from afbs.metrics import UNTOLD, Metric
from afbs.record.columns import Evals, Floats, Ints, Orders, Steps, Updates
from afbs.record.kinds import ClientsLine, EndLine, JoinedLine
from afbs.record.schema import MetaFile, ResultFile


@dataclass(frozen=True)
class Clients:
    """One entry a client, those that joined later last. What was not told is nan; a cluster is then 0."""

    id: Ints
    examples: Floats
    cluster: Ints
    latency: Floats


@dataclass(frozen=True)
class Recorded:
    """Everything a run folder says. `result` is None until the run has ended.

    `unreadable` lines were skipped; `problems` are sentences about files that are damaged.
    """

    folder: Path
    meta: MetaFile
    config: Mapping[str, Any]
    result: ResultFile | None
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
    unreadable: int
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.meta.get("name") or self.folder.name

    @property
    def algorithm(self) -> str:
        return self.meta.get("algorithm") or "unknown"

    @property
    def title(self) -> str:
        """How the algorithm's name is written."""
        return self.meta.get("title") or self.algorithm

    @property
    def light(self) -> bool:
        """Whether only evaluations were kept of it: then `result` has the counts, and nothing tells of single steps."""
        return self.meta.get("light", False)

    @property
    def seed(self) -> int | None:
        return self.meta.get("seed")

    @property
    def horizon(self) -> float:
        return self.meta.get("horizon", self.seconds)

    @property
    def seconds(self) -> float:
        """How far the run has come in virtual time."""
        last = [float(column[-1]) for column in (self.evals.time, self.steps.time, self.orders.start) if len(column)]
        return max([*last, 0.0 if self.end is None else self.end.time])

    @property
    def target(self) -> float | None:
        """What the configuration asks for; where that is lost, what the summary remembers of it."""
        known = target_of(self.config)
        return known if known is not None or self.result is None else self.result.get("target")

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """What was measured, the one to watch first."""
        return metrics_of(self.meta)

    @property
    def metric(self) -> Metric:
        """The one to watch."""
        return self.metrics[0]

    @property
    def watched(self) -> Floats:
        """Its values."""
        return self.evals.of(self.metric.name)

    @property
    def best(self) -> float:
        return self.metric.best(self.watched)

    @property
    def final(self) -> float:
        known = self.watched[np.isfinite(self.watched)]
        return float(known[-1]) if len(known) else math.nan

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the first evaluation as good as `target`, or None."""
        reached = self.metric.reached(self.watched, target)
        return float(self.evals.time[reached[0]]) if len(reached) else None

    @cached_property
    def clients(self) -> Clients:
        """Those of `meta.json` and those that joined; where neither tells, those that were given an order."""
        known = self.meta.get("clients") or {"id": sorted(set(self.orders.client.tolist()))}
        number, late = len(known["id"]), [one for one in self.joined if one.client not in set(known["id"])]
        examples, latency = known.get("examples"), known.get("latency")
        return Clients(
            id=np.array([*known["id"], *(one.client for one in late)], np.int64),
            examples=np.array([*_floats(examples, number), *(one.examples for one in late)], np.float64),
            cluster=np.array(
                [*(one or 0 for one in known.get("cluster") or [0] * number), *(one.cluster for one in late)], np.int64
            ),
            latency=np.array([*_floats(latency, number), *(math.nan for _ in late)], np.float64),
        )


def target_of(config: Mapping[str, Any]) -> float | None:
    """What a run is to reach, as its configuration has it."""
    target = setting(config, "evaluation", "target")
    return float(target) if isinstance(target, int | float) and math.isfinite(target) else None


def metrics_of(meta: MetaFile) -> tuple[Metric, ...]:
    """What a run measures, the metric to watch first; a run that does not say classifies."""
    return tuple(Metric(**told) for told in meta.get("metrics") or ()) or UNTOLD


def versions_of(config: Mapping[str, Any]) -> int:
    """After how many versions a run ends; 0 if it ends by the clock."""
    versions = setting(config, "run", "versions")
    return versions if isinstance(versions, int) and versions > 0 else 0


def setting(config: Mapping[str, Any], table: str, key: str) -> Any:
    """One setting, None where it is missing. What a part's own setting may be, only that part knows."""
    found = config.get(table)
    return found.get(key) if isinstance(found, Mapping) else None


def _floats(column: list[int | None] | list[float | None] | None, number: int) -> list[float]:
    return [math.nan if value is None else float(value) for value in column or [None] * number]
