"""`--set TABLE.KEY=VALUE`, the same for every command that takes a configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from afbs.files import parsed

__all__ = ["Settings", "parsed"]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="TABLE.KEY=VALUE", help="Change one setting; may be given several times."),
]
