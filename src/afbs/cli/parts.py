"""`afbs list`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs.types import UserError

_KINDS = {
    "algorithms": "algorithm",
    "datasets": "data",
    "models": "model",
    "tasks": "task",
    "latencies": "latency",
    "availabilities": "availability",
    "partitions": "partition",
    "clusters": "clusters",
    "transports": "transport",
    "executors": "executor",
}


def add(app: typer.Typer) -> None:
    app.command("list")(list_parts)


def list_parts(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=" | ".join(_KINDS))],
    settings: Annotated[bool, typer.Option("--settings", help="Show what each can be set to.")] = False,
) -> None:
    """List what there is to choose from, and with --settings what can be set.

    KIND is one of: algorithms, datasets, models, tasks, latencies,
    availabilities, partitions, clusters, transports, executors.
    """
    from afbs import manual, registry

    if kind not in _KINDS:
        raise UserError(f"There is no kind {kind!r}{registry.hint(kind, _KINDS)}")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in registry.names(_KINDS[kind]):
        part = registry.find(_KINDS[kind], name)
        table.add_row(f"[bold]{name}[/]", escape(registry.summary(part)))
        for setting in manual.settings(part) if settings else ():
            table.add_row("", f"{setting.name} = {escape(setting.default)}  [dim]{escape(setting.about)}[/]")
    Console().print(table)
