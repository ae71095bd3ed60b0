"""`afbs sweep`: many runs as one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs import registry
from afbs.cli._settings import Settings, parsed
from afbs.cli._telling import explained, note
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.sweeps import Outcome

console = Console(emoji=False)
_FRAME = re.compile(r'^  (?:File "|\[Previous).*\n(?:    .*\n)*', re.MULTILINE)


def add(app: typer.Typer) -> None:
    app.command("sweep")(sweep)


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="A configuration with a table [sweep].")],
    settings: Settings = None,
    folder: Annotated[Path | None, typer.Option("--folder", "-o", help="The sweep's folder: sweeps/NAME.")] = None,
    results: Annotated[Path | None, typer.Option(help="Also write tables, curves and digests here.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report (HTML) here.")] = None,
    cores: Annotated[int | None, typer.Option(min=0, help="Use so many cores; 0 is all.")] = None,
) -> None:
    """Run every cell of a sweep, side by side, and compare its arms in a table.

    The same command goes on where it stopped: cells that are done are not run
    again, those that were interrupted are resumed. Ctrl-C saves them all.

    A cell that fails does not stop the others; the exit code is then 1.
    """
    from afbs.sweeps import sweep as carry_out

    refuse_report(report)
    with explained():
        outcome = carry_out(file, folder=folder, results=results, cores=cores, on_note=note, **parsed(settings))
    print_table(outcome)
    if report and len(outcome.cells):
        from afbs.report import write

        write([result.folder for result in outcome.results.values()], report, note)
        console.print(f"Report: {escape(str(report))}", highlight=False, soft_wrap=True)
    if results:
        console.print(f"Results: {escape(str(results))}", highlight=False, soft_wrap=True)
    end_if_failed(outcome)


def refuse_report(path: Path | None) -> None:
    """Refuses a report that could not be written, before anything is run."""
    if path is not None and path.is_dir():
        raise UserError(f"`--report` {path} is a folder; it must be a file, as in report.html.")


def print_table(outcome: Outcome) -> None:
    """A row an arm."""
    from afbs.sweeps.results import grid

    if not len(outcome.cells):
        return
    best = f"best_{outcome.watched.name}"
    shown = [name for name in outcome.measures if name != best or outcome.chosen == name]
    heading, rows = grid(outcome, shown)
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("", min_width=12, overflow="fold")
    for name in heading[1:]:
        table.add_column(escape(name.replace(", ", "\n")), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    for arm, settings in outcome.search.get("best", {}).items():
        found = ", ".join(f"{path} = {registry.short(value)}" for path, value in settings.items())
        console.print(f"{escape(arm)}, tuned: {escape(found)}", highlight=False, soft_wrap=True)


def end_if_failed(outcome: Outcome) -> None:
    """Names the cells that failed, and ends the command with code 1 if there are any."""
    errors = Console(stderr=True, soft_wrap=True, emoji=False)
    for name, text in outcome.failed.items():
        errors.print(f"[bold red]Failed:[/] {escape(name)}: {escape(_reason(text))}", highlight=False)
    if outcome.failed:
        more = escape(str(outcome.folder / "sweep.json"))
        errors.print(f"{len(outcome.failed)} of {len(outcome.everybody)} cells failed; {more} says more.")
        sys.exit(1)


def _reason(text: str) -> str:
    """The last line, or what follows the frames of a traceback: the exception, and the notes that it was given."""
    after = _FRAME.split(text)
    told = after[-1].strip() if len(after) > 1 else text.strip().rpartition("\n")[2]
    return told or "it did not say why"
