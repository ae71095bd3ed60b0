"""A node's own samples, in the form that training wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from afbs.apps.setup import ConfigSource, on_node
from afbs.clients.profile import strata
from afbs.config import Config
from afbs.population import held_out, holding_key
from afbs.seeds import Key
from afbs.types import ClientId, Dataset, UserError

Labelled = tuple[Any, Any] | Dataset
"""Samples and labels; or a `Dataset`, of which the training part counts."""


@dataclass(frozen=True)
class Local:
    """A data set, which of its training samples are this client's, and which of those it trains on or keeps for
    testing."""

    dataset: Dataset
    indices: NDArray[np.int64]
    train: NDArray[np.int64]
    held: NDArray[np.int64]

    def counts(self, classes: int) -> NDArray[np.int64]:
        labels = self.dataset.train_y[self.indices]
        _check_labels(labels, classes)
        return np.bincount(labels, minlength=classes)

    def of(self, client: ClientId) -> Sequence[NDArray[np.int64]]:
        """Whose samples are whose, as far as this node can say."""
        return cast("Sequence[NDArray[np.int64]]", {client: self.train})


def shard(source: ConfigSource, context: Context) -> Dataset:
    """The samples that the configured partition gives to this node, by its `partition-id`: for trying things out."""
    client = client_id(context)
    if client is None:
        raise UserError("The node has no `partition-id`: start it with --node-config 'partition-id=0'.")
    data, chosen = _share(on_node(source, context.run_config, {}), client)
    return replace(data, train_x=data.train_x[chosen], train_y=data.train_y[chosen], owners=None)


def own(given: Labelled | None, config: Config, client: ClientId) -> Local:
    """What the user's loader gave; without a loader, the client's share of the configured data."""
    if given is None:
        dataset, chosen = _share(config, client)
    else:
        dataset = given if isinstance(given, Dataset) else samples(given, "`load`", not config.task.native)
        chosen = np.arange(len(dataset.train_y))
    key = holding_key(config.run.seed).child(client)
    return Local(dataset, chosen, *held_out(chosen, config.evaluation.held_out, key))


def samples(given: Any, where: str, numbers: bool = False) -> Dataset:
    """Arrays `(x, y)` as a data set: bytes are pixels from 0 to 1, other numbers are as they are, ids are tokens.

    With `numbers`, labels that are floating are what is to be predicted.
    """
    if not isinstance(given, tuple) or len(given) != 2:
        raise UserError(f"{where} must give (samples, labels) or an afbs.types.Dataset, got {type(given).__name__}.")
    x, y = np.asarray(given[0]), np.asarray(given[1])
    numbers = numbers and np.issubdtype(y.dtype, np.floating)
    whole = numbers or (np.issubdtype(y.dtype, np.integer) and len(y) and y.min() >= 0)
    if x.ndim < 2 or len(x) != len(y) or not len(y) or not whole:
        raise UserError(
            f"{where}: samples of shape {x.shape} and labels of shape {y.shape} ({y.dtype}); expected a row or an "
            "image a sample, and for each one a whole number from 0 on."
        )
    if np.issubdtype(x.dtype, np.floating):
        x = x.astype(np.float32)
        if not np.isfinite(x).all():
            raise UserError(f"{where}: a sample has a value that is not finite as float32.")
    elif x.dtype != np.uint8:
        raise UserError(f"{where}: samples of {x.dtype}; expected bytes (pixels) or floating numbers, or a Dataset.")
    if numbers:
        y = y.astype(np.float32)
        if not np.isfinite(y).all():
            raise UserError(f"{where}: a label is not finite as float32.")
        return Dataset(x, y, x[:1], y[:1], 0)
    y = y.astype(np.int64)
    return Dataset(x, y, x[:1], y[:1], int(y.max()) + 1)


def client_id(context: Context) -> ClientId | None:
    """The number that the node was started with."""
    settings: Mapping[str, Any] = context.node_config
    for name in ("client-id", "partition-id"):
        value = settings.get(name)
        if value is not None:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
                raise UserError(f"The node's `{name}` must be a whole number from 0 on, got {value!r}.")
            return value
    return None


def _share(config: Config, client: ClientId) -> tuple[Dataset, NDArray[np.int64]]:
    dataset = config.data.load()
    labels = strata(dataset.train_y, dataset.classes)[0]
    split = config.partition.split(labels, dataset.owners, Key.root(config.run.seed, "partition"))
    if client >= len(split.indices):
        raise UserError(
            f"There is no share of the data for client {client}: `partition` makes {len(split.indices)}. Give the node "
            "another `partition-id`, or the app a data loader of its own."
        )
    return dataset, split.indices[client]


def _check_labels(labels: NDArray[np.int64], classes: int) -> None:
    if len(labels) and labels.max() >= classes:
        raise UserError(f"A label is {int(labels.max())}; the server knows {classes} classes, from 0 on.")
