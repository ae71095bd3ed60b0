"""What an evaluation comes to once all of its parts are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from afbs.core.fairness import deciles, fairness
from afbs.interfaces import Task
from afbs.types import Score, Tallies, UserError


def on_test_set(task: Task) -> Callable[[Sequence[Tallies]], Score]:
    """Parts are added up, in their order, and the task concludes."""

    def combine(found: Sequence[Tallies]) -> Score:
        score = task.conclude({name: sum(part[name] for part in found) for name in found[0]})
        check_names(task, score.values)
        return score._replace(values={metric.name: float(score.values[metric.name]) for metric in task.metrics})

    return combine


def on_clients(task: Task) -> Callable[[Sequence[Tallies]], Score]:
    """Parts are some clients each, with one number a client: how they are spread. Where clients are real, a part also
    says how many were `absent`: they did not answer."""

    def combine(found: Sequence[Tallies]) -> Score:
        values = {metric: np.concatenate([part[metric.name] for part in found]) for metric in task.metrics}
        spread = {metric.name: _told(fairness(each, metric.sign)) for metric, each in values.items()}
        watched = values[task.metrics[0]]
        absent = {"absent": sum(part["absent"] for part in found)} if "absent" in found[0] else {}
        details = {
            "clients": len(watched),
            **absent,
            **spread,
            "quantiles": [float(f"{each:.6g}") for each in deciles(watched)],
        }
        return Score({}, details)

    return combine


def check_names(task: Task, found: Any) -> None:
    """Refuses numbers that are not those that the task says it measures."""
    name, declared = type(task).__name__, [metric.name for metric in task.metrics]
    given = list(found) if isinstance(found, Mapping) else []
    missing = [each for each in declared if each not in given]
    strange = [each for each in given if each not in declared]
    if missing or strange:
        what = f"no {missing[0]!r}" if missing else f"{strange[0]!r}"
        raise UserError(
            f"`task`: {name}.measure gives {what}, and {name}.metrics names {', '.join(map(repr, declared))}. The two "
            f"must agree; where one is made of the other, {name}.score does it."
        )


def _told(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(f"{value:.6g}") if isfinite(value) else None for name, value in numbers.items()}
