"""Finds parts by name. A file in its folder is registered by being there; `package.module:Name` finds the rest."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from afbs.imports import attribute, is_shadowed, path_of, search
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
from afbs.types import UserError

__all__ = [
    "check",
    "checked",
    "find",
    "hint",
    "is_checked",
    "is_shadowed",
    "names",
    "path_of",
    "refuse_unknown",
    "search",
    "short",
    "summary",
]

_LARGEST = 2**63 - 1
_KINDS: dict[str, tuple[str, type | str]] = {
    "algorithm": ("afbs.algorithms", Algorithm),
    "latency": ("afbs.latency", Latency),
    "availability": ("afbs.latency", Availability),
    "data": ("afbs.data", Source),
    "partition": ("afbs.partitions", Partition),
    "clusters": ("afbs.privacy", LabelMechanism),
    "transport": ("afbs.transports", Transport),
    "executor": ("afbs.executors", Executor),
    "task": ("afbs.tasks", Task),
    "model": ("afbs.models", "torch.nn:Module"),
}


def names(kind: str) -> list[str]:
    """The names of what ships with the package."""
    return [file for file in _files(kind) if _part(kind, file) is not None]


def find(kind: str, name: str) -> Any:
    """The class called `name`, from its folder or, for `package.module:Name`, from anywhere."""
    if ":" in name:
        return attribute(f"{kind}.name", name)
    found = _part(kind, name) if name in _files(kind) else None
    if found is None:
        raise UserError(f"`{kind}.name`: there is no {kind} called {name!r}{hint(name, names(kind))}")
    return found


def check(kind: str, name: str) -> None:
    """Refuses a name that no file and no path can stand for, without importing anything."""
    if ":" not in name and name not in _files(kind):
        raise UserError(f"`{kind}.name`: there is no {kind} called {name!r}{hint(name, _files(kind))}")


def summary(part: Any) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(part) or "").partition("\n")[0]


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean 'fedbuff'?`, or the names there are."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}."


def refuse_unknown(table: str, given: Iterable[str], known: list[str]) -> None:
    """Refuses settings that a part does not have."""
    for key in given:
        if key not in known:
            what = hint(key, known) if known else "; this one has no settings."
            raise UserError(f"There is no setting `{table}.{key}`{what}")


def checked(place: str, wanted: Any, value: Any, endless: bool = False) -> Any:
    """The value, if it is of the wanted type and in its range. Lists stand for tuples: TOML has no other.

    With `endless` a number may be infinite.
    """
    adapter = _adapter(wanted, endless)
    if adapter is None:  # a type that TOML cannot hold: arrays, say
        return value
    try:
        found = adapter.validate_python(value, strict=not isinstance(value, list))
    except ValidationError as error:
        message = error.errors()[0]["msg"].replace("Input should be", "must be")
        raise UserError(f"`{place}` {message}, got {short(value)}.") from None
    if isinstance(found, float) and found != found:
        raise UserError(f"`{place}` must be a number, got nan.")
    if isinstance(found, int) and abs(found) > _LARGEST:
        raise UserError(f"`{place}` must not be beyond {_LARGEST} (2^63 - 1), got {short(value)}.")
    return found


def is_checked(wanted: Any) -> bool:
    """Whether a setting of this type can be written in TOML, and so be checked."""
    return _adapter(wanted, False) is not None


def short(value: Any) -> str:
    """What the user gave, as far as it can be read in a sentence."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"a number of about {int(value.bit_length() * 0.30103) + 1:,} digits"
    try:
        text = repr(value)
    except Exception:  # a user's own class may fail even at this
        text = ""
    return text if 0 < len(text) <= 100 else f"a {type(value).__name__}"


def _adapter(wanted: Any, endless: bool) -> TypeAdapter[Any] | None:
    try:
        return _kept_adapter(wanted, endless)
    except TypeError:  # it says something of itself that cannot be looked up
        return _new_adapter(wanted, endless)


def _new_adapter(wanted: Any, endless: bool) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(wanted, config=ConfigDict(allow_inf_nan=endless))
    except PydanticUserError:
        return None


_kept_adapter = lru_cache(maxsize=1024)(_new_adapter)  # making one takes much longer than asking it


@cache
def _files(kind: str) -> list[str]:
    package = importlib.import_module(_KINDS[kind][0])
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name[0] != "_")


@cache
def _part(kind: str, file: str) -> Any | None:
    """The one public class of its kind that a file defines."""
    package, base = _KINDS[kind]
    if isinstance(base, str):
        module, _, name = base.partition(":")
        base = getattr(importlib.import_module(module), name)
    for part in vars(importlib.import_module(f"{package}.{file}")).values():
        here = inspect.isclass(part) and part.__module__ == f"{package}.{file}" and part.__name__[0] != "_"
        if here and issubclass(part, base) and not inspect.isabstract(part):
            return part
    return None
