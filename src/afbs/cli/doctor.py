"""`afbs doctor`: what is here, what is missing for what, and how fast this machine is."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib import metadata
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs.cli._telling import note

console = Console(emoji=False)
SECONDS = 1.0
FEATURES = {
    "hub": "`afbs data get`, Parquet and image files",
    "live": "`afbs live`, runs in the browser while they go on",
    "flower": "real clients: `afbs new`, `afbs fleet`, `flwr run`",
    "tensorboard": "`afbs export --to tensorboard`",
    "mlflow": "`afbs export --to mlflow`",
    "wandb": "`afbs export --to wandb`",
    "optuna": "searching settings in a sweep",
    "ray": "workers and sweeps on many machines",
    "onnx": "`afbs export --model model.onnx`",
}
"""What each extra is for. Those that only the project itself needs are not told."""


def add(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Train for a second, to see how fast.")] = True,
) -> None:
    """Say what is installed, what is missing for which feature, where data are looked for, and how fast this is."""
    from afbs.version import VERSION

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    table.add_row("afbs", f"{VERSION}, on Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    table.add_row("cores", f"{_usable()} for this process, of {os.cpu_count()}")
    table.add_row("torch", _torch())
    table.add_row("numpy", escape(_numpy()))
    table.add_row("native kernels", escape(_kernels()))
    for name, words in _data():
        table.add_row(name, escape(words))
    table.add_row("features", "")
    missing = []
    for extra, packages in sorted(_extras().items()):
        here = all(map(_version, packages))
        missing += [] if here else [extra]
        mark = "[green]here[/]   " if here else "[yellow]missing[/]"
        table.add_row(f"  {extra}", f"{mark} {escape(FEATURES[extra])}")
    console.print(table, highlight=False)
    if missing:
        note(f"What is missing comes with: pip install 'afbs[{','.join(missing)}]'")
    if speed:
        with console.status("Training for a second"):
            found = _samples_a_second()
        console.print(
            f"[bold]speed[/]           {found:,.0f} samples/s: LeNet-5 on 28 × 28 digits, one core.", highlight=False
        )


def _usable() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _torch() -> str:
    import torch

    devices = [f"{torch.cuda.device_count()} × CUDA"] if torch.cuda.is_available() else []
    return f"{torch.__version__}, {', '.join(devices) or 'no accelerator: runs train on the CPU'}"


def _numpy() -> str:
    from afbs.experiment.arithmetic import products

    return f"{_version('numpy')}, multiplies with {products() or 'a library that does not say what it is'}"


def _kernels() -> str:
    from afbs.native.library import best, why_not

    level = best()
    return f"level {level}" if level else f"none, training is several times slower: {why_not()}"


def _data() -> Iterator[tuple[str, str]]:
    from afbs.data import manage

    yield "data", f"$AFBS_DATA, {os.environ.get('AFBS_DATA') or 'which is not set'}; then {manage.cache_folder()}"
    lines = [line for line in manage.listed() if line.about]
    yield "  ready", " ".join(line.name for line in lines if line.state != "missing")
    missing = [line.name for line in lines if line.state == "missing"]
    if missing:
        yield "  missing", f"{' '.join(missing)}: afbs data get NAME"


def _extras() -> dict[str, list[str]]:
    """The packages that each extra asks for, as the installed package says."""
    found: dict[str, list[str]] = {}
    try:
        wanted = metadata.requires("afbs") or []
    except metadata.PackageNotFoundError:  # used from its sources, without being installed
        return found
    for line in wanted:
        package, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)", line)
        if package and extra and extra[1] in FEATURES:
            found.setdefault(extra[1], []).append(package[0])
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _samples_a_second() -> float:
    """What one core trains of the quickstart's network, with the kernel that a run would take."""
    import numpy as np
    import torch

    from afbs.clients.trainer import Trainer
    from afbs.config import load
    from afbs.experiment.assembly import workload
    from afbs.population import populate
    from afbs.types import Order

    config = load({"partition": {"name": "iid", "clients": 20}, "run": {"in_flight": 20}})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trainer = Trainer(workload(config, populate(config)))
        start = trainer.initial()
        out = np.empty_like(start)
        order = Order(0, 0, 0, 0, 0.0, rate=0.01, steps=5)
        trainer.train(0, order, start, out)  # the first job also pays for what torch sets up
        began, samples = perf_counter(), 0
        while perf_counter() - began < SECONDS:
            samples += trainer.train(0, order, start, out).samples
        return samples / (perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
