"""Builds the network that a configuration names, or a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from afbs import registry
from afbs.types import Dataset, ModelChoice, UserError


def build(choice: ModelChoice, dataset: Dataset) -> nn.Module:
    """The constructor is given `shape`, `classes` and `tokens` where it takes them, and the settings."""
    maker = registry.find("model", choice.build) if isinstance(choice.build, str) else choice.build
    if isinstance(maker, nn.Module):
        raise UserError(
            "`model` must be a class or a function that builds a module, not a module: each worker has its own."
        )
    facts = {"shape": tuple(dataset.train_x.shape[1:]), "classes": dataset.classes, "tokens": dataset.tokens}
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
        raise UserError(f"`model` could not be built: {_reason(error)}.") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"`model` built a {type(module).__name__}, not a torch.nn.Module.")
    _try_out(module, dataset)
    return module


def check_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"`run.device` = {name!r} cannot be used here: {_reason(error)}.") from None


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _parameters(maker: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(maker, eval_str=True).parameters
    except NameError:  # its annotations name what only a type checker imports
        return inspect.signature(maker).parameters


def _try_out(module: nn.Module, dataset: Dataset) -> None:
    """Two samples, before anything is trained. It also gives lazy layers their shapes."""
    samples = torch.from_numpy(np.array(dataset.train_x[:2]))
    samples = samples.long() if dataset.tokens else samples.float()
    module.eval()
    try:
        with torch.no_grad():
            scores = module(samples)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        kind = "token numbers" if dataset.tokens else "numbers"
        shape = tuple(samples.shape)
        raise UserError(f"`model` cannot score samples ({kind} of shape {shape}): {_reason(error)}.") from error
    wanted = (len(samples), dataset.classes)
    found = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    if found != wanted:
        raise UserError(f"`model` must give a score for each class: for 2 samples {wanted}, got {found}.")
