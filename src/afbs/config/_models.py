"""The network that a table describes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from afbs import registry
from afbs.config._written import is_toml, path_to
from afbs.config.tables import Config
from afbs.types import ModelChoice, UserError

_DEFAULT_MODEL = "lenet5"
_KERNELS = Literal["auto", "native", "torch"]


def with_kernel(config: Config, kernel: _KERNELS) -> Config:
    """The same with this kernel."""
    table = {**config.tables["model"], "kernel": kernel}
    model = dataclasses.replace(config.model, kernel=kernel)
    return dataclasses.replace(config, model=model, tables={**config.tables, "model": table})


def model_of(given: Any) -> tuple[ModelChoice, dict[str, Any]]:
    """The choice, and the table that says it."""
    if not isinstance(given, ModelChoice):
        given = _model_choice(given)
    for key, value in given.settings.items():
        if not is_toml(value):
            raise UserError(
                f"`model.{key}` must be a number, text, or a list or table of them, for `config.toml` to hold it, got "
                f"{registry.short(value)}. A class or function of your own can build the module with anything else."
            )
    name = given.build if isinstance(given.build, str) else path_to(given.build)
    return given, {"name": name, "kernel": given.kernel, **given.settings}


def _model_choice(given: Any) -> ModelChoice:
    if not isinstance(given, Mapping):
        if not callable(given):
            raise UserError(
                f"`model` must be a table, a class or a function that builds a module, got {registry.short(given)}."
            )
        given = {"name": given}
    name, kernel = given.get("name", _DEFAULT_MODEL), given.get("kernel", "auto")
    if not callable(name) and not isinstance(name, str):
        raise UserError(f"`model.name` must be text, got {registry.short(name)}.")
    settings = {key: value for key, value in given.items() if key not in ("name", "kernel")}
    if isinstance(name, str):
        registry.check("model", name)
        name = registry.find("model", name) if registry.is_shadowed(name) else name
    return ModelChoice(name, settings, registry.checked("model.kernel", _KERNELS, kernel))
