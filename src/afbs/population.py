"""The clients of a run: who has which data, and what the server may know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.clients.profile import label_counts
from afbs.config import Config
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Dataset, Grouping, Split, UserError


@dataclass(frozen=True)
class Population:
    """The clients of a run: their data, and what the server knows of them."""

    dataset: Dataset
    split: Split
    grouping: Grouping | None
    clients: Sequence[ClientInfo]

    def label_counts(self) -> dict[ClientId, NDArray[np.int64]]:
        return label_counts(self.dataset.train_y, self.split.indices, self.dataset.classes)


def populate(config: Config) -> Population:
    """The clients that a configuration describes."""
    dataset = config.data.load()
    _check_labels("train", dataset.train_x, dataset.train_y, dataset.classes)
    _check_labels("test", dataset.test_x, dataset.test_y, dataset.classes)
    split = config.partition.split(dataset.train_y, dataset.owners, Key.root(config.run.seed, "partition"))
    empty = [client for client, chosen in enumerate(split.indices) if not len(chosen)]
    if empty:
        raise UserError(f"`partition`: client {empty[0]} has no samples; every client needs at least one.")
    number = len(split.indices)
    if config.run.in_flight > number:
        raise UserError(
            f"`run.in_flight` must be at most the number of clients ({number}), got {config.run.in_flight}."
        )
    awaits = config.algorithm.awaits
    if awaits > config.run.in_flight:
        raise UserError(
            f"`algorithm`: a step waits for {awaits} updates, but only `run.in_flight` = {config.run.in_flight} jobs "
            "are under way at a time. A smaller buffer or more in flight would do."
        )
    grouping = None
    if config.algorithm.clustered:
        counts = label_counts(dataset.train_y, split.indices, dataset.classes)
        most = max(1, awaits // 2)  # more clusters would leave a buffer fewer than two updates of each to compare
        grouping = config.clusters.group(counts, Key.root(config.run.seed, "clusters"), most)
    cluster_of = grouping.cluster_of if grouping else {}
    clients = [
        ClientInfo(client, len(chosen), cluster_of.get(client, 0)) for client, chosen in enumerate(split.indices)
    ]
    return Population(dataset, split, grouping, clients)


def _check_labels(split: str, samples: NDArray[Any], labels: NDArray[np.int64], classes: int) -> None:
    if len(samples) != len(labels) or not len(labels):
        raise UserError(f"`data`: {len(samples)} {split} samples with {len(labels)} labels; each sample needs one.")
    if not np.issubdtype(labels.dtype, np.integer):
        raise UserError(f"`data`: the labels of the {split} samples must be whole numbers, got {labels.dtype}.")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        where = int(wrong[0])
        raise UserError(
            f"`data`: the label of {split} sample {where} is {int(labels[where])}; "
            f"with {classes} classes labels go from 0 to {classes - 1}."
        )
