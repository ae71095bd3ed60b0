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
    cluster.up(
        nodes,
        runs,
        insecure=insecure,
        warm=warm,
        tell=lambda process: _say(f"{process.name:<12} process {process.pid}"),
    )
    safety = "INSECURE: no TLS, no keys" if insecure else "TLS, and only nodes whose keys were registered"
    _say(f"SuperLink at 127.0.0.1:{cluster.port} ({safety}). Logs: {cluster.folder / 'logs'}")
    _say("Next: afbs fleet run APP, or with Flower's own command:")
    _say(f"  FLWR_HOME={shlex.quote(str(cluster.folder / 'flwr'))} flwr run APP fleet --stream")


def run(
    app: Annotated[Path, typer.Argument(metavar="APP", help="The folder of a Flower app, as `afbs new` writes it.")],
    settings: Settings = None,
    folder: Annotated[Path | None, typer.Option("--folder", "-o", help="The run folder, new or to go on with.")] = None,
    fleet: Folder = _DEFAULT,
) -> None:
    """Run a Flower app on the fleet and show how it is going.

    APP is its folder, as `afbs new` writes it. Ctrl-C stops the showing; the run goes on.
    """
    from afbs.apps.cluster import CONNECTION, Cluster
    from afbs.experiment.running import folder_name
    from afbs.files import parsed
    from afbs.record.reader import is_done, is_run
    from afbs.types import UserError

    parsed(settings)  # what is wrong is said here, not on a node
    cluster = Cluster(fleet)
    if not (app / "pyproject.toml").is_file():
        raise UserError(f"{app} is no Flower app: it has no pyproject.toml. `afbs new` writes one.")
    if not cluster.linked:
        first = f"{cluster.stopping}, then: afbs fleet up" if cluster.alive else "afbs fleet up"
        what = "The SuperLink of the fleet in {} is gone" if cluster.alive else "No fleet is up in {}"
        raise UserError(f"{what.format(fleet)}. First: {first}")
    told = " ".join(shlex.quote(setting) for setting in settings or ())
    place = (folder or cluster.runs / folder_name(app.resolve().name)).absolute()
    command = ["flwr", "run", str(app), CONNECTION, "--stream"]
    command += ["--run-config", f"set={_text(told)}", "--run-config", f"folder={_text(str(place))}"]
    environment = cluster.environment()
    executable = shutil.which("flwr", path=environment["PATH"]) or "flwr"
    shown = shlex.quote(str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place))
    try:
        code = subprocess.run([executable, *command[1:]], env=environment, check=False).returncode
    except KeyboardInterrupt:
        _say(f"The run goes on in {shown}, without being shown. To stop it and the fleet: {cluster.stopping}")
        sys.exit(130)
    known = is_run(place)
    if known and is_done(place):  # what Flower's command ends with says nothing of the run
        _say(f"Next: afbs report {shown}")
        sys.exit(code)
    if known:
        _say(f"The run did not come to its end. To go on: afbs fleet run {shlex.quote(str(app))} --folder {shown}")
    sys.exit(code or 1)


def status(folder: Folder = _DEFAULT) -> None:
    """Say what of a fleet is running."""
    from afbs.apps.cluster import Cluster

    cluster = Cluster(folder)
    processes = cluster.processes()
    for process in processes:
        _say(f"{process.name:<12} process {process.pid:<8} {'up' if process.alive else 'gone'}")
    if not processes:
        _say(f"No fleet is up in {folder}.")
    elif cluster.linked:
        _say(f"SuperLink at 127.0.0.1:{cluster.port}. Logs: {cluster.folder / 'logs'}")
    left = len(cluster.running())
    if left and not cluster.alive:
        _say(f"{left} processes that they started are left. To stop them: {cluster.stopping}")


def down(folder: Folder = _DEFAULT) -> None:
    """Stop everything that `afbs fleet up` started, and nothing else."""
    from afbs.apps.cluster import Cluster

    cluster = Cluster(folder)
    left = len(cluster.running())
    stopped = cluster.down()
    for process in stopped:
        _say(f"{process.name:<12} process {process.pid:<8} stopped")
    if left and not stopped:
        _say(f"{left} processes that a killed fleet had left stopped")
    elif not stopped:
        _say(f"Nothing was running in {folder}.")


def _text(value: str) -> str:
    """As TOML writes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _say(text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)
