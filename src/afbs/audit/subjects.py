"""What is attacked: the clients and the mechanisms that a configuration describes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs import registry
from afbs.audit.side_channel import trained_bias
from afbs.audit.verdicts import Audit, audit
from afbs.clients.profile import label_counts, strata
from afbs.config import Config, accepts, load
from afbs.interfaces import LabelMechanism
from afbs.seeds import Key

Labels = tuple[NDArray[np.int64], int]
"""Labels without data, and of how many classes they are."""


def audited(config: Config, number: int, names: Sequence[str] = (), labels: Labels | None = None) -> Audit:
    """Attack the named mechanisms, or all, for so many clusters, on the configured clients."""
    key, partition = Key.root(config.run.seed, "audit"), Key.root(config.run.seed, "partition")
    attacked = mechanisms(config, number, names)
    if labels is not None:
        train_y, classes = labels
        split = config.partition.split(train_y, None, partition)
        return audit(label_counts(train_y, classes, split.indices), attacked, key, split.clusters)
    dataset = config.data.load()
    split = config.partition.split(strata(dataset.train_y, dataset.classes)[0], dataset.owners, partition)
    counts = label_counts(*strata(dataset.train_y, dataset.classes), split.indices)
    return audit(counts, attacked, key, split.clusters, trained_bias(config, dataset, split, counts))


def mechanisms(config: Config, number: int, names: Sequence[str] = ()) -> dict[str, LabelMechanism]:
    """The chosen mechanism as it is configured, the others as they come; each for so many clusters, if it can."""
    chosen = str(config.tables["clusters"]["name"])
    found: dict[str, LabelMechanism] = {}
    for name in names or [*registry.names("clusters"), chosen]:
        mechanism: Any = config.clusters if name == chosen else registry.find("clusters", name)()
        can = accepts(type(mechanism), "number", number)
        found[name] = dataclasses.replace(mechanism, number=number) if can else mechanism
    return found


def usual_number(config: Config) -> int:
    """As many clusters as the mechanism is to find; else as many as the partition makes; else three."""
    number = int(getattr(config.clusters, "number", 1))
    if number < 2:
        number = int(config.tables["partition"].get("clusters", 1))
    return number if number > 1 else 3


def with_clusters(config: Config, number: int) -> Config:
    """The same clients made in so many clusters, where the partition makes any."""
    if "clusters" not in config.tables["partition"]:
        return config
    partition: Any = config.partition
    return load(config, {"partition": dataclasses.replace(partition, clusters=number)})
