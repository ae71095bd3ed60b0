"""Finds parts by name. A file in its folder is registered by being there; `package.module:Name` finds the rest."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Any

from afbs.interfaces import Algorithm, Availability, LabelMechanism, Latency, Partition, Source
from afbs.types import UserError

_KINDS: dict[str, tuple[str, type | str]] = {
    "algorithm": ("afbs.algorithms", Algorithm),
    "latency": ("afbs.latency", Latency),
    "availability": ("afbs.latency", Availability),
    "data": ("afbs.data", Source),
    "partition": ("afbs.partitions", Partition),
    "clusters": ("afbs.privacy", LabelMechanism),
    "model": ("afbs.models", "torch.nn.Module"),
}


def names(kind: str) -> list[str]:
    """The names of what ships with the package."""
    return sorted(_shipped(kind))


def find(kind: str, name: str) -> Any:
    """The class called `name`, from its folder or, for `package.module:Name`, from anywhere."""
    if ":" in name:
        return _imported(kind, name)
    try:
        return _shipped(kind)[name]
    except KeyError:
        raise UserError(f"`{kind}.name`: there is no {kind} called {name!r}{hint(name, names(kind))}.") from None


def summary(part: Any) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(part) or "").partition("\n")[0]


def hint(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'fedbuff'?`, or the names there are."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"


@cache
def _shipped(kind: str) -> dict[str, Any]:
    package, base = _KINDS[kind]
    base = _attribute(*base.rsplit(".", 1)) if isinstance(base, str) else base
    found = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name.startswith("_"):
            continue
        for part in vars(importlib.import_module(f"{package}.{module.name}")).values():
            here = inspect.isclass(part) and part.__module__ == f"{package}.{module.name}"
            if here and issubclass(part, base) and not inspect.isabstract(part) and not part.__name__.startswith("_"):
                found[module.name] = part
    return found


def _imported(kind: str, name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return _attribute(module, attribute)
    except ModuleNotFoundError as error:
        raise UserError(f"`{kind}.name` is {name!r}: no module called {error.name!r} can be imported.") from error
    except AttributeError:
        raise UserError(f"`{kind}.name` is {name!r}: {module!r} has nothing called {attribute!r}.") from None


def _attribute(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
