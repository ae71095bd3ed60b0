"""Builds the network that a configuration names, or a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from afbs import registry
from afbs.clients.trying import reason, try_out
from afbs.interfaces import Task
from afbs.types import Dataset, ModelChoice, UserError


def build(choice: ModelChoice, dataset: Dataset, task: Task | None = None) -> nn.Module:
    """The constructor is given `shape`, `classes` and `tokens` where it takes them, and the settings.

    `shape` and `classes`, the number of outputs, are what the task says. Without one nothing is asked of the outputs.
    """
    maker = registry.find("model", choice.build) if isinstance(choice.build, str) else choice.build
    if isinstance(maker, nn.Module):
        raise UserError(
            "`model` must be a class or a function that builds a module, not a module: each worker has its own."
        )
    shape, outputs = task.sizes(dataset) if task else (tuple(dataset.train_x.shape[1:]), dataset.classes)
    facts = {"shape": shape, "classes": outputs, "tokens": dataset.tokens}
    parameters = _parameters(maker)
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    if not open_ended:
        registry.refuse_unknown("model", choice.settings, [key for key in parameters if key not in facts])
    for key, value in choice.settings.items():
        if key in parameters and parameters[key].annotation is not inspect.Parameter.empty:
            registry.checked(f"model.{key}", parameters[key].annotation, value)
    given = {name: fact for name, fact in facts.items() if name in parameters}
    try:
        module = maker(**{**given, **choice.settings})
    except (TypeError, RuntimeError, MemoryError) as error:  # torch says with the second that memory is short
        raise UserError(f"`model` could not be built: {reason(error)}.") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"`model` built a {type(module).__name__}, not a torch.nn.Module.")
    try_out(module, dataset, task, outputs)
    return module


def check_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"`run.device` = {name!r} cannot be used here: {reason(error)}.") from None


def _parameters(maker: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(maker, eval_str=True).parameters
    except NameError:  # its annotations name what only a type checker imports
        return inspect.signature(maker).parameters
