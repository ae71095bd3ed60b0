"""Every client has samples of a few classes only, as in McMahan et al. 2017 (arXiv 1602.05629).

Deviation: they sort by label and cut into shards, so that a shard may straddle two classes. Here a client has exactly
`classes` different ones. Each class is held by a number of clients in proportion to its size, and cut evenly among
them. Who holds what is a random graph: a first one that has the right degrees, then many random exchanges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from afbs.interfaces import Partition
from afbs.partitions._apportion import largest_remainder, require_samples
from afbs.seeds import Key
from afbs.types import Split, UserError

_EXCHANGES = 10


@final
@dataclass(frozen=True)
class Pathological(Partition):
    """Every client has samples of exactly `classes` classes."""

    clients: Annotated[int, Ge(1)] = 100
    """How many."""
    classes: Annotated[int, Ge(1)] = 2
    """How many classes each has."""

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        require_samples(len(labels), self.clients, 1)
        rng = key.generator()
        names, counts = np.unique(labels, return_counts=True)
        if self.classes > len(names):
            raise UserError(f"`partition.classes` must be at most {len(names)} for these data, got {self.classes}.")
        holders = self._holders(counts)
        if (few := np.flatnonzero(holders > counts)).size:
            raise UserError(
                f"`partition.clients`: class {names[few[0]]} has {counts[few[0]]} samples for {holders[few[0]]} "
                f"clients. Fewer than {self.clients} clients, or fewer than {self.classes} classes for each, would do."
            )
        parts: list[list[NDArray[np.int64]]] = [[] for _ in range(self.clients)]
        held = _graph(holders, self.clients, self.classes, rng)
        for place, label in enumerate(names):
            clients = [client for client, classes in enumerate(held) if place in classes]
            samples = rng.permutation(np.flatnonzero(labels == label))
            for client, part in zip(clients, np.array_split(samples, len(clients)), strict=True):
                parts[client].append(part)
        return Split([np.sort(np.concatenate(mine)) for mine in parts])

    def _holders(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many clients hold each class: in proportion to its size, at least one, at most all."""
        slots = self.clients * self.classes
        if slots < len(counts):
            raise UserError(
                f"`partition.clients`: {self.clients} clients of {self.classes} classes each cannot hold "
                f"{len(counts)} classes; at least {-(-len(counts) // self.classes)} clients would do."
            )
        holders = np.ones(len(counts), np.int64)
        while (left := slots - int(holders.sum())) > 0:
            room = holders < self.clients
            wanted = np.maximum(counts * (slots / counts.sum()) - holders, 1e-9) * room
            holders = np.minimum(holders + largest_remainder(left, wanted), self.clients)
        return holders


def _graph(holders: NDArray[np.int64], clients: int, classes: int, rng: np.random.Generator) -> list[set[int]]:
    """For each client the places of its classes."""
    held: list[set[int]] = [set() for _ in range(clients)]
    free = np.full(clients, classes)
    for place in np.argsort(-holders, kind="stable"):
        # Giving each class to those who have most room left always works out (Gale and Ryser).
        for client in np.lexsort((rng.random(clients), -free))[: holders[place]]:
            held[client].add(int(place))
            free[client] -= 1
    for _ in range(_EXCHANGES * clients * classes):
        one, other = rng.integers(clients, size=2)
        mine, theirs = sorted(held[one] - held[other]), sorted(held[other] - held[one])
        if mine and theirs:
            given, taken = mine[rng.integers(len(mine))], theirs[rng.integers(len(theirs))]
            held[one] ^= {given, taken}
            held[other] ^= {given, taken}
    return held
