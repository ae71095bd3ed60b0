"""Label counts for tests: the paper's partition on labels without data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from afbs.partitions.clustered import Clustered
from afbs.seeds import Key


def clustered(
    clusters: int, seed: int = 1, *, clients: int = 60, classes: int = 10, each: int = 500
) -> tuple[dict[int, NDArray[np.int64]], list[int]]:
    """Clients' label counts, and the clusters they come from."""
    labels = np.repeat(np.arange(classes), each)
    split = Clustered(clients=clients, clusters=clusters).split(labels, None, Key.root(seed, "partition"))
    rows = (np.bincount(labels[chosen], minlength=classes).astype(np.int64) for chosen in split.indices)
    counts = dict(enumerate(rows))
    assert split.clusters is not None
    return counts, list(split.clusters)


def own_mixtures(seed: int, clients: int, classes: int, samples: int = 50_000) -> NDArray[np.int64]:
    """Every client draws from its own Dirichlet(0.1) mixture; volumes are log-normal."""
    rng = np.random.default_rng(seed)
    weight = rng.lognormal(size=clients)
    sizes = np.maximum(1, (weight / weight.sum() * samples).astype(int))
    return np.array([rng.multinomial(size, rng.dirichlet(np.full(classes, 0.1))) for size in sizes])
