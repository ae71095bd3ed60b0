"""`afbs list`: what there is to choose from."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any

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
}


def add(app: typer.Typer) -> None:
    app.command("list")(list_parts)


def list_parts(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=" | ".join(_KINDS))],
    settings: Annotated[bool, typer.Option("--settings", help="Show each one's settings with their defaults.")] = False,
) -> None:
    """List what there is: algorithms, datasets, models, tasks, latencies, availabilities, partitions, clusters.

    KIND is one of these words.
    """
    from afbs import registry

    if kind not in _KINDS:
        raise UserError(f"There is no kind {kind!r}{registry.hint(kind, _KINDS)}")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in registry.names(_KINDS[kind]):
        part = registry.find(_KINDS[kind], name)
        table.add_row(f"[bold]{name}[/]", escape(registry.summary(part)))
        for setting, default in _settings(part) if settings else ():
            table.add_row("", f"[dim]{setting} = {escape(default)}[/]")
    Console().print(table)


def _settings(part: Any) -> list[tuple[str, str]]:
    """The fields of a part, or what a network's constructor takes besides what it is told about the data."""
    if dataclasses.is_dataclass(part):
        return [(field.name, _default(field)) for field in dataclasses.fields(part)]
    parameters = inspect.signature(part).parameters.values()
    return [(each.name, repr(each.default)) for each in parameters if each.default is not each.empty]


def _default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return "…" if field.default_factory is dataclasses.MISSING else repr(field.default_factory())
