"""`afbs new`, `afbs fleet up|run|status|down`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from afbs.cli._settings import Settings

console = Console(emoji=False)
Folder = Annotated[Path, typer.Option("--fleet", help="Where the fleet keeps its keys, logs and disks.")]
_DEFAULT = Path(".afbs-fleet")


def add(app: typer.Typer) -> None:
    app.command("new")(new)
    fleet = typer.Typer(no_args_is_help=True, help="A Flower SuperLink and SuperNodes on this machine, to try things.")
    fleet.command("up")(up)
    fleet.command("run")(run)
    fleet.command("status")(status)
    fleet.command("down")(down)
    app.add_typer(fleet, name="fleet")


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="A new folder; the project is named after it.")],
) -> None:
    """Write a Flower app that is ready to run: your model, your data, our algorithm."""
    from afbs.apps.project import write_project

    for path in write_project(folder):
        _say(str(folder / path))
    _say(f"Try it: afbs fleet up, then: afbs fleet run {shlex.quote(str(folder))}")


def up(
    nodes: Annotated[int, typer.Option(min=1, max=64, help="How many SuperNodes.")] = 4,
    folder: Folder = _DEFAULT,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without TLS and keys; on this machine only.")] = False,
    warm: Annotated[bool, typer.Option("--warm", help="Nodes are `afbs node`, which answer sooner.")] = False,
    runs: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """Start a SuperLink and SuperNodes on this machine, with TLS and node keys made on the spot.

    Everything listens on 127.0.0.1 alone. `afbs fleet down` stops exactly what this started.
    """
    from afbs.apps.cluster import Cluster

    cluster = Cluster(folder)
    for process in cluster.up(nodes, runs, insecure=insecure, warm=warm):
        _say(f"{process.name:<12} process {process.pid}")
    safety = "INSECURE: no TLS, no keys" if insecure else "TLS, and only nodes whose keys were registered"
    _say(f"SuperLink at 127.0.0.1:{cluster.port} ({safety}). Logs: {cluster.folder / 'logs'}")
    _say("Next: afbs fleet run APP, or with Flower's own command:")
    _say(f"  FLWR_HOME={shlex.quote(str(cluster.folder / 'flwr'))} flwr run APP fleet --stream")


def run(
    app: Annotated[Path, typer.Argument(help="The folder of a Flower app, as `afbs new` writes it.")],
    settings: Settings = None,
    folder: Annotated[Path | None, typer.Option("--folder", "-o", help="The run folder, new or to go on with.")] = None,
    fleet: Folder = _DEFAULT,
) -> None:
    """Run a Flower app on the fleet and show how it is going."""
    from afbs.apps.cluster import CONNECTION, Cluster
    from afbs.files import parsed
    from afbs.types import UserError

    parsed(settings)  # what is wrong is said here, not on a node
    cluster = Cluster(fleet)
    if not any(process.alive for process in cluster.processes()):
        raise UserError(f"No fleet is up in {fleet}. First: afbs fleet up")
    told = " ".join(shlex.quote(setting) for setting in settings or ())
    command = ["flwr", "run", str(app), CONNECTION, "--stream", "--run-config", f"set={_text(told)}"]
    if folder is not None:
        command += ["--run-config", f"folder={_text(str(folder.absolute()))}"]
    environment = cluster.environment()
    executable = shutil.which("flwr", path=environment["PATH"]) or "flwr"
    sys.exit(subprocess.run([executable, *command[1:]], env=environment, check=False).returncode)


def status(folder: Folder = _DEFAULT) -> None:
    """Say what of a fleet is running."""
    from afbs.apps.cluster import Cluster

    processes = Cluster(folder).processes()
    for process in processes:
        _say(f"{process.name:<12} process {process.pid:<8} {'up' if process.alive else 'gone'}")
    if not processes:
        _say(f"No fleet is up in {folder}.")


def down(folder: Folder = _DEFAULT) -> None:
    """Stop everything that `afbs fleet up` started, and nothing else."""
    from afbs.apps.cluster import Cluster

    stopped = Cluster(folder).down()
    for process in stopped:
        _say(f"{process.name:<12} process {process.pid:<8} stopped")
    if not stopped:
        _say(f"Nothing was running in {folder}.")


def _text(value: str) -> str:
    """As TOML writes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _say(text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)
