"""`afbs quickstart`: a first comparison, from the package alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from afbs.cli import runs as commands
from afbs.cli._settings import Settings
from afbs.cli._telling import note
from afbs.types import UserError

FILE = Path(__file__).with_suffix(".toml")
"""The same as examples/quickstart.toml, which is where it is read."""
ALGORITHMS = "afbs,fedbuff,fedavg"


def add(app: typer.Typer) -> None:
    app.command("quickstart")(quickstart)


def quickstart(
    settings: Settings = None,
    report: Annotated[Path, typer.Option(help="Where the report (HTML) goes.")] = Path("report.html"),
    runs: commands.RunsFolder = Path("runs"),
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.toml", help="Write the configuration here, and run nothing.")
    ] = None,
) -> None:
    """Compare AFBS, FedBuff and FedAvg on 100 clients with the embedded digits, and write a report.

    It needs nothing but the package, and about a minute on two cores.

    To go on from there: `afbs quickstart --write mine.toml`, change it, `afbs run mine.toml`.
    """
    if write is not None:
        try:
            with write.open("x", encoding="utf-8") as file:
                file.write(FILE.read_text(encoding="utf-8"))
        except FileExistsError:
            raise UserError(f"`--write`: {write} is there already.") from None
        except OSError as error:
            raise UserError(f"`--write`: {write} cannot be written ({error.strerror}).") from None
        note(f"Wrote {write}. Try: afbs run {write} --set run.virtual_days=0.5")
        return
    commands.compare([FILE], algorithms=ALGORITHMS, settings=settings, runs=runs, report=report)
    note(f"Open {report} in a browser. To change something: afbs quickstart --write mine.toml")
