"""How parts are written down: as tables that TOML can hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from afbs import registry
from afbs.config._settings import fields_of


def plain(part: Any) -> dict[str, Any]:
    """A part's settings as TOML can hold them; what it cannot hold is left out, as if it had not been set."""
    return {key: value for key, value in values_of(part).items() if is_toml(value)}


def is_toml(value: Any) -> bool:
    """Whether a file can hold this value."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and all(map(is_toml, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_toml, value))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float | str)


def values_of(part: Any) -> dict[str, Any]:
    """The settings of a part that were set."""
    values = {key: getattr(part, key) for key in fields_of(type(part))}
    return {key: value for key, value in values.items() if value is not None}


def as_table(part: Any) -> dict[str, Any]:
    """The table that describes a part which was given in Python."""
    return {"name": path_to(type(part)), **plain(part)}


def path_to(thing: Any) -> str:
    """`package.module:Name`, or just the name of what ships with afbs."""
    if known := registry.path_of(thing):
        return known
    module = getattr(thing, "__module__", "")
    package, _, last = module.rpartition(".")
    if package.startswith("afbs.") and not last.startswith("_"):
        return last
    name = getattr(thing, "__qualname__", type(thing).__name__)
    # What a package has from a private file of its own is known by the package's name.
    public = last.startswith("_") and getattr(sys.modules.get(package), name, None) is thing
    return f"{package if public else module}:{name}"
