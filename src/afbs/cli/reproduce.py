"""`afbs reproduce`: the paper's tables and figures, beside the published ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs import registry
from afbs.cli._telling import explained, note
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.reproduce.page import Page

console = Console(emoji=False)


def add(app: typer.Typer) -> None:
    app.command("reproduce")(reproduce)


def reproduce(
    what: Annotated[list[str], typer.Argument(metavar="WHAT...", help="list, table2, …, all: see `list`.")],
    dataset: Annotated[str, typer.Option(help="Only these, with commas between: mnist,cifar10,cifar100,sst2.")] = "",
    clusters: Annotated[str, typer.Option(help="Only with so many clusters of clients: 1,3,5 (sst2: 1,2).")] = "",
    methods: Annotated[str, typer.Option(help="Only these algorithms: afbs,fedbuff,…")] = "",
    seeds: Annotated[str, typer.Option(help="With these seeds instead of the usual ones: 1,2,3.")] = "",
    virtual_days: Annotated[float, typer.Option(min=0.0, help="So long instead of the usual time.")] = 0.0,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing: tables of what has ended so far.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Do runs that are in the results already once more.")] = False,
    folder: Annotated[Path, typer.Option("--folder", "-o", help="Where the runs are.")] = Path("sweeps/reproduce"),
    results: Annotated[Path, typer.Option(help="Where tables, curves and digests are written.")] = Path("results"),
    cores: Annotated[int, typer.Option(min=0, help="Use so many cores; 0 is all.")] = 0,
) -> None:
    """The paper's tables and figures from runs of our own, each figure beside the published one.

    Runs that several of them need are done once, and those in the results folder not again.

    The same command goes on where it stopped; Ctrl-C saves everything. Real data sets must be there: afbs data get.
    """
    from afbs.reproduce import EXHIBITS, Choice, collected, refuse, reproduced, suited

    if "list" in what:
        if set(what) != {"list"}:
            raise UserError("`afbs reproduce list` lists everything there is, and runs nothing: give it no other name.")
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        everything: set[object] = set()
        for exhibit in EXHIBITS.values():
            specs = set(exhibit.specs(Choice()))
            everything.update(specs)
            table.add_row(exhibit.name, f"{len(specs)} runs" if specs else "", exhibit.title)
        table.add_row("all", f"{len(everything)} runs", "everything; what several need is run once")
        console.print(table)
        return
    for name in what:
        if name not in EXHIBITS and name != "all":
            raise UserError(f"`afbs reproduce`: there is no {name!r}{registry.hint(name, ['list', *EXHIBITS, 'all'])}")
    choice = Choice(
        tuple(_split(dataset)),
        tuple(_numbers("--clusters", clusters)),
        tuple(_split(methods)),
        tuple(_numbers("--seeds", seeds)),
        virtual_days,
    )
    if "all" in what:
        names, objections = suited(EXHIBITS.values(), choice)
        for objection in objections:
            note(f"Left out: {objection}")
    else:
        names = list(dict.fromkeys(what))
        for name in names:
            refuse(EXHIBITS[name], choice)
    failed: Mapping[str, str] = {}
    if collect:
        pages = collected(names, choice, folder=folder, results=results)
    else:
        with explained():
            pages, failed = reproduced(
                names, choice, folder=folder, results=results, cores=cores, again=again, on_note=note
            )
    for page in pages:
        _print(page)
    console.print(f"Results: {escape(str(results))}", highlight=False, soft_wrap=True)
    for name, text in failed.items():
        last = (text.strip().splitlines() or ["it did not say why"])[-1]
        Console(stderr=True, soft_wrap=True).print(f"[bold red]Failed:[/] {escape(name)}: {escape(last)}")
    if failed:
        sys.exit(1)


def _print(page: Page) -> None:
    console.print(f"\n[bold]{escape(page.title)}[/]", highlight=False)
    for one in page.tables:
        table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), title=escape(one.title))
        table.title_justify = "left"
        for place, name in enumerate(one.heading):
            table.add_column(escape(name), justify="right" if 0 < place < len(one.heading) - 1 else "left")
        for row in one.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    if not page.tables:
        note("Nothing has been measured yet. Without `--collect` it is.")
    for sentence in page.notes:
        note(sentence)
    if page.missing:
        note(f"{page.missing} of {page.missing + len(page.runs)} runs have not ended yet.")


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(word) for word in _split(text)]
    except ValueError:
        raise UserError(f"`{option}` must be whole numbers with commas between, got {text!r}.") from None
