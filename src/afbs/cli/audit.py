"""`afbs audit`: what the label mechanisms give away on the user's own clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs.cli._settings import Settings, parsed
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.audit.subjects import Labels
    from afbs.audit.verdicts import Audit

MOST_LABELS = 100_000_000


def add(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The configuration; see examples/.")],
    settings: Settings = None,
    mechanisms: Annotated[str, typer.Option(help="Only these, e.g. projection,dp; all if not given.")] = "",
    clusters: Annotated[str, typer.Option(help="For these numbers of clusters, e.g. 3,5.")] = "",
    labels: Annotated[
        str, typer.Option(metavar="CLASSESxSAMPLES", help="Labels without data, e.g. 10x5000 for CIFAR-10's.")
    ] = "",
    folder: Annotated[Path, typer.Option("--folder", "-o", help="Where tables and the figure go.")] = Path("audit"),
) -> None:
    """Attack the label mechanisms on these clients: what does a curious server learn, and how good are clusters?"""
    from afbs.audit.files import make_room, write
    from afbs.audit.subjects import audited, usual_number, with_clusters
    from afbs.config import load

    config = load(file, parsed(settings))
    names = [name.strip() for name in mechanisms.split(",") if name.strip()]
    numbers = [_whole("--clusters", number) for number in clusters.split(",") if number.strip()]
    without_data = _labels(labels) if labels else None
    configs = {number: with_clusters(config, number) for number in numbers} or {usual_number(config): config}
    make_room(folder)
    console = Console()
    audits = []
    for number, chosen in configs.items():
        with console.status(f"Playing the curious server, K = {number}"):
            audits.append(audited(chosen, number, names, without_data))
        _print(console, audits[-1], config.tables["clusters"]["name"])
    for path in write(audits, folder):
        console.print(f"Wrote {escape(str(path))}", highlight=False, soft_wrap=True)


def _labels(text: str) -> Labels:
    classes, times, samples = text.partition("x")
    if not times:
        raise UserError(f"`--labels` wants CLASSESxSAMPLES, as in 10x5000, got {text!r}.")
    number, each = _whole("--labels", classes), _whole("--labels", samples)
    if number * each > MOST_LABELS:
        raise UserError(f"`--labels` wants at most {MOST_LABELS:,} labels in all, got {text!r}.")
    return np.repeat(np.arange(number), each), number


def _whole(option: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise UserError(f"`{option}` wants whole numbers of at least 1, got {text.strip()!r}.")
    return number


def _print(console: Console, audit: Audit, chosen: str) -> None:
    from afbs.audit.files import rows, shown
    from afbs.audit.words import sentences

    title = f"{audit.clients} clients, {audit.classes} labels, K = {audit.clusters}"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("attack", no_wrap=True)
    for name in ("TV", "main label", "exact", "one sample", "ARI"):
        table.add_column(name, justify="right", no_wrap=True)
    before = ""
    for row in rows([audit]):
        if row["mechanism"] != before:
            before = row["mechanism"]
            table.add_row(f"[bold]{escape(before)}[/]" + (" (chosen)" if before == chosen else ""))
        known = "advantage" in row
        one_sample = f"{row['advantage']:.2f}/{row['allowed']:.2f}" if known else ""
        numbers = [shown(row, column) for column in ("distance", "top", "exact")]
        table.add_row(f"  {row['attack']}", *numbers, one_sample, shown(row, "agreement"))
    console.print(table)
    for name, text in sentences(audit).items():
        console.print(f"[bold]{escape(name)}[/]: {escape(text)}", highlight=False)
    console.print(
        "[dim]TV: how far the server's estimate is from the truth (0 exact, 1 nothing in common). Main label, "
        "exact: of how many clients it finds the most frequent label, all counts. One sample: how much better than "
        "chance it tells one sample's label, and the most the mechanism allows. ARI: agreement of the clusters with "
        f"{escape(audit.reference)}.[/]\n",
        highlight=False,
    )
