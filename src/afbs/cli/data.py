"""`afbs data`: which data sets are here, and how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set; see `afbs data list`.")]
console = Console()


def add(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Data sets: list, get, import, check.")
    group.command("list")(list_all)
    group.command("get")(get)
    group.command("import")(import_files)
    group.command("check")(check)
    app.add_typer(group, name="data")


def list_all() -> None:
    """What is here, where, how large, under which licence, and how to get the rest."""
    from afbs.data._manage import listed

    row = "{:<14} {:<8} {:>7} {:>7} {:>8} {:>10}  {}"
    console.print(row.format("name", "state", "train", "test", "classes", "size", "licence"), style="bold")
    for line in listed():
        about = line.about
        numbers = [f"{about.train:,}", f"{about.test:,}", str(about.classes)] if about else [""] * 3
        size = f"{line.bytes / 1e6:,.1f} MB" if line.bytes else ""
        _say(row.format(line.name, line.state, *numbers, size, about.licence if about else "").rstrip())
        _say("    " + "; ".join(text for text in (line.summary.rstrip("."), line.where, line.how) if text))


def get(name: Name) -> None:
    """Download a data set from the Hugging Face hub; goes on where it was cut off."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from afbs.data import _manage
    from afbs.data._hub import HuggingFace

    tasks: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:

        def report(path: str, done: int, size: int) -> None:
            if path not in tasks:
                tasks[path] = progress.add_task(path, total=size)
            progress.update(tasks[path], completed=done)

        folder = _manage.get(name, HuggingFace(report))
    _say(f"{name} is ready; its files are in {folder}")


def import_files(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder with its files, or the archive they came in.")],
) -> None:
    """Take a data set's files from a folder or an archive."""
    from afbs.data import _manage

    _say(f"{name} is ready; its files were copied to {_manage.take(name, path)}")


def check(name: Name) -> None:
    """Read all there is of a data set and compare it with what was published."""
    from afbs.data import _manage

    for line in _manage.check(name):
        _say(line)
    _say(f"{name} is fine.")


def _say(text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)
