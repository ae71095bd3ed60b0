"""`afbs verify`: is a run what its record says?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def add(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    train: Annotated[bool, typer.Option("--train", help="Train it again, too, and compare the final model.")] = False,
) -> None:
    """Decide a run again from its record, and say whether every step is what the algorithm decides.

    It needs no data and trains nothing, unless --train is given. The first step that differs is named.
    """
    from afbs.experiment import verify as decide_again

    console = Console(emoji=False)
    verdict = decide_again(folder, train=train)
    if not verdict.good:
        Console(stderr=True, soft_wrap=True, emoji=False).print(
            f"[bold red]Not the same:[/] {escape(verdict.problem)}", highlight=False
        )
        sys.exit(1)
    trained = " Trained again, the final model is the same, bit for bit." if verdict.trained else ""
    console.print(f"All {verdict.steps:,} steps are as decided.{trained}", highlight=False, soft_wrap=True)
