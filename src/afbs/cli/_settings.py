"""`--set TABLE.KEY=VALUE`, the same for every command that takes a configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

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
        if not equals or ("." not in path and path.strip() != "name"):  # the one setting that is in no table
            raise UserError(f"`--set` wants TABLE.KEY=VALUE, got {setting!r}.")
        try:
            found[path.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[path.strip()] = value.strip()
    return found
