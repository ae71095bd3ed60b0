"""Commands that show runs: `report`, `figures`, `live`, `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.", show_default=False)]


def add(app: typer.Typer) -> None:
    app.command()(report)


def report(
    folders: Folders,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page.")] = Path("report.html"),
) -> None:
    """Write one self-contained page about one run, or comparing many."""
    from rich.console import Console

    from afbs.report import write

    path = write(folders, output)
    Console().print(f"Wrote [bold]{path}[/] ({path.stat().st_size / 1e6:.1f} MB).", highlight=False)
