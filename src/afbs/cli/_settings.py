"""`--set TABLE.KEY=VALUE`, the same for every command that takes a configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date, time
from typing import Annotated, Any

import typer

from afbs.files import toml
from afbs.types import UserError

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="TABLE.KEY=VALUE", help="Change one setting; may be given several times."),
]


def parsed(given: Sequence[str] | None) -> dict[str, Any]:
    """`a.b=1` as {"a.b": 1}; what is not TOML is text."""
    found = {}
    for setting in given or ():
        path, equals, value = setting.partition("=")
        path, value = path.strip(), value.strip()
        table, dot, key = path.partition(".")
        if not equals or not ((table and dot and key) or path == "name"):  # the one setting that is in no table
            raise UserError(f"`--set` wants TABLE.KEY=VALUE, as in training.lr=0.1, got {setting!r}.")
        found[path] = value if path == "name" and value[:1] not in "'\"" else _value(path, value)
    return found


def _value(path: str, text: str) -> Any:
    """Numbers, truth values, lists and quoted text as TOML writes them, and anything else as it stands."""
    if text in ("True", "False"):
        return text == "True"
    try:
        tables = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError):
        return toml(f"`--set {path}=…`", f"value = {text}")["value"]  # says what is wrong with it
    # More than one line of TOML is text after all, and so is what looks like a date.
    return text if list(tables) != ["value"] or isinstance(tables["value"], date | time) else tables["value"]
