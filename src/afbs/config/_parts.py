"""The object that a table describes: found by its name, or given in Python."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from afbs import registry
from afbs.config._settings import refuse_unfinished, settings_of
from afbs.config._written import as_table, path_to, plain, values_of
from afbs.imports import attribute
from afbs.interfaces import (
    Algorithm,
    Availability,
    Executor,
    LabelMechanism,
    Latency,
    Partition,
    Source,
    Task,
    Transport,
)
from afbs.tasks import check_task
from afbs.types import Training, UserError

PARTS: dict[str, tuple[str, type]] = {
    "data": ("mnist5k", Source),
    "partition": ("clustered", Partition),
    "latency": ("uniform", Latency),
    "availability": ("always", Availability),
    "clusters": ("projection", LabelMechanism),
    "task": ("classification", Task),
    "algorithm": ("afbs", Algorithm),
    "transport": ("simulated", Transport),
    "executor": ("processes", Executor),
}


def part_of(table: str, base: type, given: Any, default: str) -> tuple[Any, dict[str, Any]]:
    """The object a table describes, and the table with every default written out."""
    if isinstance(given, type) and issubclass(given, base):
        refuse_unfinished(table, given)
        given = given()
    if isinstance(given, base):
        checked = settings_of(table, type(given), values_of(given)) if dataclasses.is_dataclass(given) else given
        _check_draws(checked)
        check_task(checked)
        return checked, as_table(checked)
    if not isinstance(given, Mapping):
        raise UserError(
            f"`[{table}]` must be a table or an afbs.interfaces.{base.__name__}, got {registry.short(given)}."
        )
    settings = {key: value for key, value in given.items() if key != "name"}
    name = given.get("name", default)
    if not isinstance(name, str):
        raise UserError(f"`{table}.name` must be text, got {registry.short(name)}.")
    part = registry.find(table, name)
    if not (isinstance(part, type) and issubclass(part, base)):
        raise UserError(f"`{table}.name` is {name!r}, which is not a subclass of afbs.interfaces.{base.__name__}.")
    built = settings_of(table, part, settings)
    _check_draws(built)
    check_task(built)
    return built, {"name": name, **plain(built)}


def _check_draws(part: Any) -> None:
    if isinstance(part, Latency) and getattr(part, "per", None) not in ("client", "job"):
        found = f"got {part.per!r}" if hasattr(part, "per") else "and does not"
        raise UserError(
            f"`latency`: the class {type(part).__name__} must say how often `duration` is asked, {found}: `per` = "
            "'client' (once a client) or 'job' (once a job)."
        )


def own_data(given: Any, task: Task) -> Any:
    """Arrays `(x, y)` or `(train_x, train_y, test_x, test_y)`, or a torch Dataset, as a source; else what was given.

    Labels that are floating numbers are what is to be predicted, unless the task is to classify.
    """
    if isinstance(given, Mapping | str | Source):
        return given
    if isinstance(given, tuple) and len(given) in (2, 4):
        from afbs.data import Arrays

        return _with_numbers(Arrays(*given), task)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        from afbs.data import from_torch

        return _with_numbers(from_torch(given), task)
    return given


def _with_numbers(arrays: Any, task: Task) -> Any:
    floating = "float" in str(getattr(arrays.train_y, "dtype", ""))
    return dataclasses.replace(arrays, numbers=floating and not task.native)


def with_function(training: Training) -> tuple[Training, str]:
    """The training function itself, and the name under which it is written down."""
    found, place = training.function, "training.function"
    if isinstance(found, str):
        found = attribute(place, found)
    if not callable(found) or isinstance(found, type):
        raise UserError(f"`{place}` must be a function `train(model, data, order)`, got {registry.short(found)}.")
    try:
        inspect.signature(found).bind("model", "data", "order")
    except TypeError:
        name = getattr(found, "__qualname__", type(found).__name__)
        raise UserError(f"`{place}`: {name} must take three arguments: model, data, order.") from None
    except ValueError:  # one that is written in C says nothing of its arguments
        pass
    return dataclasses.replace(training, function=found), path_to(found)
