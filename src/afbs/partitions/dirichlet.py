"""Each class is dealt to the clients in proportions drawn from a Dirichlet distribution (Hsu et al. 2019;
arXiv 1909.06335, in the form of Li et al. 2022, arXiv 2102.02079, where the proportions are drawn for each class).

Deviation: a client that would be left with fewer than `min_examples` samples is given some of the largest client's,
instead of drawing everything again, which at many clients and a small alpha would never end. The notes say how many
samples were moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

from afbs.interfaces import Partition
from afbs.partitions._apportion import largest_remainder, require_samples
from afbs.seeds import Key
from afbs.types import Split


@final
@dataclass(frozen=True)
class Dirichlet(Partition):
    """Every client has its own mixture of classes and its own volume; a small `alpha` makes them more unlike."""

    clients: Annotated[int, Ge(1)] = 100
    """How many."""
    alpha: Annotated[float, Gt(0)] = 0.5
    """Smaller makes clients more unlike."""
    min_examples: Annotated[int, Ge(1)] = 1
    """The fewest samples of a client."""

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        require_samples(len(labels), self.clients, self.min_examples)
        rng = key.generator()
        held: list[list[int]] = [[] for _ in range(self.clients)]
        for label in np.unique(labels):
            samples = rng.permutation(np.flatnonzero(labels == label))
            sizes = largest_remainder(len(samples), rng.dirichlet(np.full(self.clients, self.alpha)))
            for client, part in enumerate(np.split(samples, np.cumsum(sizes)[:-1])):
                held[client].extend(part.tolist())
        moved = _level(held, self.min_examples, rng)
        return Split([np.sort(np.array(samples, np.int64)) for samples in held], {"moved": moved})


def _level(held: list[list[int]], least: int, rng: np.random.Generator) -> int:
    """Move samples, one by one, from whoever has most to whoever has too few."""
    sizes = np.array([len(samples) for samples in held])
    moved = 0
    for client in np.flatnonzero(sizes < least):
        while sizes[client] < least:
            richest = int(sizes.argmax())
            held[client].append(held[richest].pop(int(rng.integers(sizes[richest]))))
            sizes[richest] -= 1
            sizes[client] += 1
            moved += 1
    return moved
