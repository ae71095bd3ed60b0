"""Commands that show runs: `report`, `figures`, `live`, `export`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.", show_default=False)]


def add(app: typer.Typer) -> None:
    app.command()(report)
    app.command()(figures)
    app.command()(live)
    app.command()(export)


def report(
    folders: Folders,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page.")] = Path("report.html"),
) -> None:
    """Write one self-contained page about one run, or comparing many."""
    from rich.console import Console

    from afbs.report import write

    path = write(folders, output, _note)
    Console().print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB).", highlight=False, markup=False)


def figures(
    folders: Folders,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write into.")] = Path("figures"),
    format: Annotated[str, typer.Option("--format", "-f", help="pdf, png or svg.")] = "pdf",  # noqa: A002
) -> None:
    """Write publication figures, and the table as Markdown, CSV and LaTeX."""
    from rich.console import Console

    from afbs.report.figures import figures as draw

    written = draw(folders, output, format, _note)
    Console().print(f"Wrote {len(written)} files into {output}.", highlight=False, markup=False)


def export(
    folder: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    to: Annotated[str | None, typer.Option("--to", help="A tracker: tensorboard, mlflow or wandb.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="A CSV file for what the clients did, to try it again.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="A file for the final model: .pt, .safetensors or .onnx.")
    ] = None,
    destination: Annotated[
        str | None, typer.Option(help="A folder (tensorboard), a tracking address (mlflow) or a project (wandb).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
) -> None:
    """Send a run to a tracker, once or while it goes on, or write its trace or its final model to a file."""
    from afbs.types import UserError

    if sum(way is not None for way in (to, trace, model)) != 1:
        raise UserError("`afbs export` does one thing at a time: give it one of `--to`, `--trace` and `--model`.")
    if to is None and (destination is not None or follow):
        raise UserError("`--destination` and `--follow` go with `--to`.")
    if trace is not None:
        from afbs.experiment.tracing import export_trace

        written = export_trace(folder, trace)
        _say(f"Wrote {' and '.join(map(str, written))}.")
        _say(f"To run on it: afbs run {shlex.quote(str(folder / 'config.toml'))} {_on_trace(written)}")
    elif model is not None:
        from afbs.experiment.exporting import export_model

        _say(f"Wrote {export_model(folder, model)}.")
    elif to is not None:
        from afbs.report.trackers import export as send

        _say(f"Sent {send(folder, to, destination=destination, follow=follow)} lines of {folder} to {to}.")


def live(
    runs: Annotated[Path, typer.Argument(help="The folder that holds the runs.")] = Path("runs"),
    host: Annotated[str, typer.Option(help="The address to listen on; this machine alone by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8321,
    token: Annotated[
        str | None, typer.Option(help="What a visitor must know; made up if the host is not local.")
    ] = None,
) -> None:
    """Show runs in the browser while they go on."""
    from rich.console import Console

    from afbs.report.live import serve, token_for

    secret = token_for(host, token)

    def announce(port: int) -> None:
        address = f"[{host}]" if ":" in host else host
        query = f"?token={secret}" if secret else ""
        text = f"Live at http://{address}:{port}/{query}  (Ctrl-C stops it)"
        Console().print(text, highlight=False, markup=False, soft_wrap=True)

    serve(runs, host, port, secret, announce)


def _on_trace(written: Sequence[Path]) -> str:
    """The settings with which clients do what was written."""
    settings = ["transport.name=simulated", "latency.name=trace", f"latency.path={written[0]}"]
    if len(written) > 1:
        settings += ["availability.name=observed", f"availability.path={written[1]}"]
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


def _say(text: str) -> None:
    from rich.console import Console

    Console().print(text, highlight=False, markup=False, soft_wrap=True)


def _note(text: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)
