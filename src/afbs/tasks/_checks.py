"""What a task must say of itself before anything is loaded, and what follows from it for other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from afbs.interfaces import Task
from afbs.metrics import Metric
from afbs.types import UserError

_TAKEN = ("event", "time", "version", "wall", "per_class", "clients", "absent", "quantiles", "seal")
"""What the lines of a record call other things."""


def check_task(part: Any) -> None:
    """Refuses a task that does not say what it measures; anything that is no task is let through."""
    if not isinstance(part, Task):
        return
    name = type(part).__name__
    metrics = getattr(part, "metrics", None)
    listed = isinstance(metrics, Sequence) and len(metrics) and all(isinstance(each, Metric) for each in metrics)
    if not listed:
        got = "has none" if metrics is None else f"has {metrics!r}"
        raise UserError(
            f"`task`: the class {name} must say what it measures, and {got}: "
            'metrics = (afbs.Metric("error", better="less"),), say.'
        )
    assert metrics is not None
    names = [each.name for each in metrics]
    for each in names:
        if not each.isidentifier() or each in _TAKEN or names.count(each) > 1:
            raise UserError(
                f"`task`: {name}.metrics names {each!r}; names are words like 'error' or 'top5', each once, and not "
                f"one of {', '.join(_TAKEN)}."
            )


def with_target(evaluation: Any, task: Task) -> Any:
    """The settings `[evaluation]` with the task's own target where none is set; a target must be possible."""
    if evaluation.target is None:
        return replace(evaluation, target=task.target)
    watched = task.metrics[0]
    if watched.share and not 0 <= evaluation.target <= 1:
        raise UserError(
            f"`evaluation.target` must be between 0 and 1, as {watched.called} is a share, got {evaluation.target:g}."
        )
    return evaluation
