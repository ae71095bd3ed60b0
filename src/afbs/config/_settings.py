"""The settings of a class: which there are, and whether these will do."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_type_hints

from afbs import registry
from afbs.types import UserError

_MAY_BE_INFINITE = ("latency", "availability")


def accepts(part: Any, setting: str, value: Any) -> bool:
    """Whether a part, as a class, has this setting and would take this value for it."""
    if setting not in fields_of(part):
        return False
    try:
        registry.checked(setting, _types(part).get(setting, Any), value, endless=True)
    except UserError:
        return False
    return True


def settings_of(table: str, cls: type, given: Any) -> Any:
    """An object of this class with the settings of a table, each of them checked."""
    if not isinstance(given, Mapping):
        raise UserError(f"`[{table}]` must be a table, got {registry.short(given)}.")
    refuse_unfinished(table, cls)
    registry.refuse_unknown(table, given, fields_of(cls))
    missing = [key for key in fields_of(cls, needed=True) if key not in given]
    wanted = _types(cls)
    if missing:
        in_python = not registry.is_checked(wanted.get(missing[0], Any))
        hint = " It was made in Python, and must be given to `afbs.resume` again." if in_python else ""
        raise UserError(f"`{table}.{missing[0]}` must be given.{hint}")
    endless = given if table in _MAY_BE_INFINITE else _endless(cls)
    values = {
        key: registry.checked(f"{table}.{key}", wanted.get(key, Any), value, key in endless)
        for key, value in given.items()
    }
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:  # how a class of a user's own says what it does not like
        raise UserError(f"`[{table}]`: {cls.__name__} does not take these settings: {error}.") from error


def refuse_unfinished(table: str, cls: type) -> None:
    """A class that lacks a method cannot be a part."""
    if inspect.isabstract(cls):
        needed = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UserError(f"`{table}`: the class {cls.__name__} still needs these methods: {needed}.")


def _types(cls: type) -> dict[str, Any]:
    try:
        return _kept_types(cls)
    except (NameError, AttributeError, TypeError, SyntaxError):  # what only a type checker understands
        return {}


@lru_cache(maxsize=1024)  # a sweep reads its tables thousands of times
def _kept_types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def fields_of(cls: Any, needed: bool = False) -> list[str]:
    """The settings of a part; with `needed`, those that have no default."""
    if not dataclasses.is_dataclass(cls):
        return []
    fields = [each for each in dataclasses.fields(cls) if each.init]
    blank = dataclasses.MISSING
    return [each.name for each in fields if not needed or each.default is each.default_factory is blank]


def _endless(cls: Any) -> list[str]:
    """The settings of a part that may be infinite, because they are by default."""
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return [each.name for each in known if each.default == math.inf]
