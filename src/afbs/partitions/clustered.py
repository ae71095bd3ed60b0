"""The partition of the AFBS paper (arXiv 2506.12754): clients come in clusters, and within a cluster data are iid.

1. Each class is dealt to the clusters in proportions drawn from a symmetric Dirichlet distribution.
2. Clusters have equally many clients.
3. The clients' volumes are log-normal.
4. Each cluster's samples are shuffled and cut. Client ids are permuted, so that they tell nothing of the cluster.

Deviation: the paper says nothing of a cluster that is left with almost no data, though at α = 0.1 that is common. All
proportions are drawn again while some cluster has less than `min_cluster_share` of its fair share; the number of
redraws is in the notes. One cluster gives iid clients of unequal volumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from afbs.interfaces import Partition
from afbs.partitions._apportion import WIDEST, largest_remainder, require_samples, volumes
from afbs.seeds import Key
from afbs.types import Split, UserError

_TRIES = 1000


@final
@dataclass(frozen=True)
class Clustered(Partition):
    """Clusters of clients with alike labels, iid within a cluster, log-normal volumes. The paper's setting."""

    clients: Annotated[int, Ge(1)] = 600
    """How many."""
    clusters: Annotated[int, Ge(1)] = 1
    """How many groups of clients with alike labels."""
    alpha: Annotated[float, Gt(0)] = 0.1
    """Of the Dirichlet draw that deals each class to the clusters; smaller makes them more unlike."""
    min_cluster_share: Annotated[float, Ge(0), Le(1)] = 0.5
    """It is drawn again while some cluster has less than this of its fair share."""
    min_examples: Annotated[int, Ge(1)] = 1
    """The fewest samples of a client."""
    volume_sigma: Annotated[float, Ge(0), Le(WIDEST)] = 1.0
    """The spread of the clients' log-normal volumes; 0: all alike."""

    def __post_init__(self) -> None:
        if self.clusters > self.clients:
            raise UserError(
                f"`partition.clusters` must be at most `partition.clients` ({self.clients}), got {self.clusters}."
            )

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        require_samples(len(labels), self.clients, self.min_examples)
        rng = key.generator()
        members, redraws = self._clusters(labels, rng)
        parts: list[NDArray[np.int64]] = []
        cluster_of: list[int] = []
        for cluster, samples in enumerate(members):
            clients = len(range(cluster, self.clients, self.clusters))
            if len(samples) < self.min_examples * clients:
                raise UserError(
                    f"`partition.clients`: cluster {cluster} has {len(samples)} samples for {clients} clients, each of "
                    f"whom needs {self.min_examples}. Fewer clients or a larger `partition.min_cluster_share` would do."
                )
            sizes = volumes(len(samples), clients, self.min_examples, self.volume_sigma, rng)
            parts += np.split(rng.permutation(samples), np.cumsum(sizes)[:-1])
            cluster_of += [cluster] * clients
        order = rng.permutation(self.clients)
        return Split(
            [np.sort(parts[place]) for place in order],
            {"redraws": redraws},
            [cluster_of[place] for place in order],
        )

    def _clusters(self, labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[list[NDArray[np.int64]], int]:
        """The samples of each cluster, and how often the proportions were drawn again."""
        classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        least = self.min_cluster_share * len(labels) / self.clusters
        for redraws in range(_TRIES):
            sizes = np.stack([self._shares(len(samples), rng) for samples in classes])
            if sizes.sum(axis=0).min() >= least:
                return _deal(classes, sizes, rng), redraws
        raise UserError(
            f"`partition.min_cluster_share`: in {_TRIES} draws some cluster always had less than "
            f"{self.min_cluster_share:g} of its fair share of the {len(labels)} samples. A smaller share, fewer "
            "`partition.clusters` or a larger `partition.alpha` would do."
        )

    def _shares(self, samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return largest_remainder(samples, rng.dirichlet(np.full(self.clusters, self.alpha)))


def _deal(
    classes: list[NDArray[np.int64]], sizes: NDArray[np.int64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """For each cluster its samples: `sizes[class, cluster]` of each class."""
    dealt = [np.split(rng.permutation(part), np.cumsum(row)[:-1]) for part, row in zip(classes, sizes, strict=True)]
    return [np.concatenate(pieces) for pieces in zip(*dealt, strict=True)]
