"""`afbs data`: which data sets are here, and how to get the others."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set; see `afbs data list`.")]
console = Console()


def add(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Data sets: list, get, import, check, clean.")
    group.command("list")(list_all)
    group.command("get")(get)
    group.command("import")(import_files)
    group.command("check")(check)
    group.command("clean")(clean)
    app.add_typer(group, name="data")


def list_all() -> None:
    """What is here, where, how large, under which licence, and how to get the rest."""
    from afbs.data import manage

    row = "{:<14} {:<8} {:>7} {:>7} {:>8} {:>10}  {}"
    console.print(row.format("name", "state", "train", "test", "classes", "size", "licence"), style="bold")
    for line in manage.listed():
        about = line.about
        numbers = [f"{about.train:,}", f"{about.test:,}", str(about.classes)] if about else [""] * 3
        _say(row.format(line.name, line.state, *numbers, _size(line.bytes), about.licence if about else "").rstrip())
        _say("    " + "; ".join(text for text in (line.summary.rstrip("."), line.where, line.how) if text))
    copies = manage.copies()
    if copies:
        row = "{:<22} {:>9} {:>10}  {:<16} {}"
        console.print("\nConverted copies of your own data", style="bold")
        console.print(row.format("id", "samples", "size", "last used", "from"), style="bold")
    for copy in copies:
        used = "in use now" if copy.in_use else f"{datetime.fromtimestamp(copy.last_used):%Y-%m-%d %H:%M}"
        _say(row.format(copy.id, f"{copy.samples:,}", _size(copy.bytes), used, copy.of).rstrip())
    if copies:
        _say("`afbs data clean own` removes those that are not in use; they are made again when needed.")


def get(name: Name) -> None:
    """Download a data set from the Hugging Face hub; goes on where it was cut off."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from afbs.data import manage

    tasks: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:

        def report(path: str, done: int, size: int) -> None:
            if path not in tasks:
                tasks[path] = progress.add_task(path, total=size)
            progress.update(tasks[path], completed=done)

        folder = manage.get(name, manage.HuggingFace(report))
    _say(f"{name} is ready; its files are in {folder}")


def import_files(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder with its files, or the archive they came in.")],
) -> None:
    """Take a data set's files from a folder or an archive."""
    from afbs.data import manage

    _say(f"{name} is ready; its files were copied to {manage.take(name, path)}")


def check(name: Name) -> None:
    """Read all there is of a data set and compare it with what was published."""
    from afbs.data import manage

    for line in manage.check(name):
        _say(line)
    _say(f"{name} is fine.")


def clean(
    what: Annotated[
        list[str],
        typer.Argument(metavar="WHAT...", help="Names of data sets, ids from `afbs data list`, `own` or `all`."),
    ],
    days: Annotated[float, typer.Option(help="Only what has not been used for so many days.", min=0.0)] = 0.0,
    files: Annotated[
        bool, typer.Option("--files", help="Also the files that `get` and `import` put into the cache.")
    ] = False,
) -> None:
    """Remove converted copies of data sets from the cache: WHAT is a name, an id, `own` or `all`.

    `own` means every copy of your own data. What a run has open is kept.

    Everything that comes with the package, or whose files are still there, is made again when it is needed.
    """
    from afbs.data import manage

    removals = manage.clean(what, 86_400 * days, files)
    for removal in removals:
        _say(f"{removal.what}: kept, {removal.kept}" if removal.kept else f"{removal.what}: removed")
    freed = sum(removal.bytes for removal in removals if not removal.kept)
    _say(f"{_size(freed)} freed." if freed else "Nothing was removed.")


def _size(number: int) -> str:
    return "" if not number else f"{number / 1e6:,.1f} MB" if number >= 1e5 else f"{number / 1e3:,.1f} kB"


def _say(text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)
