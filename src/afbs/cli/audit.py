"""`afbs audit`: what the label mechanisms give away on the user's own clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs.cli._settings import Settings, parsed
from afbs.seeds import Key
from afbs.types import ClientId, Order, Train, UserError

if TYPE_CHECKING:
    from afbs.config import Config
    from afbs.interfaces import LabelMechanism
    from afbs.privacy._audit import Audit
    from afbs.types import Dataset, Split

TRAINED = 60
"""How many clients train once, to see what their updates give away."""


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
    from afbs.config import load
    from afbs.privacy._audit_files import write

    config = load(file, parsed(settings))
    names = [name.strip() for name in mechanisms.split(",") if name.strip()]
    numbers = [_whole("--clusters", number) for number in clusters.split(",") if number.strip()]
    console = Console()
    audits = []
    for number in numbers or [_number(config)]:
        with console.status(f"Playing the curious server, K = {number}"):
            audits.append(_audited(config, number, names, labels, retarget=bool(numbers)))
        _print(console, audits[-1], config.tables["clusters"]["name"])
    for path in write(audits, folder):
        console.print(f"Wrote {escape(str(path))}", highlight=False, soft_wrap=True)


def _audited(config: Config, number: int, names: list[str], labels: str, retarget: bool) -> Audit:
    from afbs.clients.profile import label_counts
    from afbs.privacy._audit import audit as attack

    if retarget and "clusters" in config.tables["partition"]:
        from afbs.config import load

        config = load(config, {"partition": dataclasses.replace(config.partition, clusters=number)})  # type: ignore[type-var]
    dataset = None if labels else config.data.load()
    train_y, classes = _labels(labels) if dataset is None else (dataset.train_y, dataset.classes)
    owners = None if dataset is None else dataset.owners
    split = config.partition.split(train_y, owners, Key.root(config.run.seed, "partition"))
    counts = label_counts(train_y, split.indices, classes)
    return attack(
        counts,
        _mechanisms(config, number, names),
        Key.root(config.run.seed, "audit"),
        split.clusters,
        None if dataset is None else _bias(config, dataset, split, counts),
    )


def _mechanisms(config: Config, number: int, names: list[str]) -> dict[str, LabelMechanism]:
    """The chosen mechanism as it is configured, the others as they come."""
    from afbs import registry

    chosen = str(config.tables["clusters"]["name"])
    found: dict[str, LabelMechanism] = {}
    for name in names or [*registry.names("clusters"), chosen]:
        mechanism: Any = config.clusters if name == chosen else registry.find("clusters", name)()
        many = name != "none" and hasattr(mechanism, "number") and dataclasses.is_dataclass(mechanism)
        found[name] = dataclasses.replace(mechanism, number=number) if many else mechanism
    return found


def _number(config: Config) -> int:
    """As many clusters as the mechanism is to find; else as many as the partition makes; else three."""
    number = int(getattr(config.clusters, "number", 1))
    if number < 2:
        number = int(config.tables["partition"].get("clusters", 1))
    return number if number > 1 else 3


def _labels(text: str) -> tuple[NDArray[np.int64], int]:
    classes, times, samples = text.partition("x")
    if not times:
        raise UserError(f"`--labels` wants CLASSESxSAMPLES, as in 10x5000, got {text!r}.")
    number = _whole("--labels", classes)
    return np.repeat(np.arange(number), _whole("--labels", samples)), number


def _bias(
    config: Config, dataset: Dataset, split: Split, counts: Mapping[ClientId, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Some clients train the initial model once; their label distributions by the last bias alone.

    None if the model's last parameters are no bias with one number a label.
    """
    from afbs.clients.workload import Workload
    from afbs.core.attacks import from_bias
    from afbs.executors.inline import Inline
    from afbs.interfaces import Plain

    place = _last_bias(config, dataset)
    if place is None:
        return None
    training = config.training
    work = Workload(
        dataset, split.indices, config.model, training, Plain(), "delta", config.run.seed, config.run.device
    )
    chosen = Key.root(config.run.seed, "audit").child(-2).generator().permutation(len(counts))[:TRAINED]
    with closing(Inline().start()) as pool, closing(pool.session(work)) as session:
        base = session.store.put(session.initial())
        first, deltas = session.store.block(len(chosen))
        for row, client in enumerate(chosen):
            order = Order(int(client), 0, 0, row, 0.0, training.lr)
            session.submit(Train(row, order, base, first + row))
            session.collect()
    sizes = np.array([counts[int(client)].sum() for client in chosen])
    steps = training.epochs * -(-sizes // training.batch_size)
    return chosen, from_bias(-deltas[:, place].astype(np.float64), steps.astype(np.float64), training.lr)


def _last_bias(config: Config, dataset: Dataset) -> slice | None:
    """Where in the flat vector the last layer's bias is: parameters come first, in the order of the module."""
    from afbs.clients.build import build

    parameters = list(build(config.model, dataset).parameters())
    end = sum(parameter.numel() for parameter in parameters)
    return slice(end - dataset.classes, end) if tuple(parameters[-1].shape) == (dataset.classes,) else None


def _whole(option: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise UserError(f"`{option}` wants whole numbers of at least 1, got {text.strip()!r}.")
    return number


def _print(console: Console, audit: Audit, chosen: str) -> None:
    from afbs.privacy._audit_files import rows, shown
    from afbs.privacy._audit_words import sentences

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
