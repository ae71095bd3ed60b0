"""What no setting has: other readings of what the paper leaves open, and an ablation. Named by path in exhibits.

`HeldOut`: FLGO, the framework that the paper names, keeps a tenth of every client's samples for validation.
`EqualVolumes`: where one client has a sample more than another, AFBS already compares them.
`Pixels`: the paper does not say what a network is given of an image.
`Augmented`: FLGO trains its networks for CIFAR on images that are shifted and mirrored by chance.
`AtFlush`: "sampling 120 clients per training round" may mean that nobody is asked between two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from afbs import registry
from afbs.data.cifar10 import Cifar10
from afbs.interfaces import Algorithm, LocalRule, Partition, Pool, Source, Task
from afbs.partitions.clustered import Clustered
from afbs.seeds import Key
from afbs.tasks.classification import Classification
from afbs.types import (
    Ask,
    ClientId,
    ClientInfo,
    Dataset,
    Matrix,
    Memory,
    Order,
    Score,
    Split,
    Step,
    Tallies,
    Update,
    Vector,
)

_MARGIN = 4
"""Of pixels, around an image that is augmented."""


@dataclass(frozen=True)
class _Cut(Partition):
    """The paper's partition, of which every client has a part."""

    clients: Annotated[int, Ge(1)] = 600
    clusters: Annotated[int, Ge(1)] = 1
    alpha: Annotated[float, Gt(0)] = 0.1
    min_cluster_share: Annotated[float, Ge(0), Le(1)] = 0.5
    min_examples: Annotated[int, Ge(1)] = 1
    volume_sigma: Annotated[float, Ge(0)] = 1.0

    def whole(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        return Clustered(
            self.clients, self.clusters, self.alpha, self.min_cluster_share, self.min_examples, self.volume_sigma
        ).split(labels, owners, key)


@final
@dataclass(frozen=True)
class EqualVolumes(_Cut):
    """Everybody has as many samples as the client of the same cluster that has the fewest."""

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        whole = self.whole(labels, owners, key)
        assert whole.clusters is not None
        sizes = zip(whole.clusters, map(len, whole.indices), strict=True)
        least = dict(sorted(sizes, reverse=True))  # the last of a cluster, its smallest, stays
        parts = zip(whole.clusters, whole.indices, strict=True)
        return Split([mine[: least[cluster]] for cluster, mine in parts], whole.notes, whole.clusters)


@final
@dataclass(frozen=True)
class HeldOut(_Cut):
    """Every client trains on all but a share."""

    held_out: Annotated[float, Ge(0), Lt(1)] = 0.1

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        whole = self.whole(labels, owners, key)
        rng = key.child(1).generator()
        return Split([self._kept(mine, rng) for mine in whole.indices], whole.notes, whole.clusters)

    def _kept(self, mine: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        number = max(1, len(mine) - int(self.held_out * len(mine)))
        return np.sort(rng.permutation(mine)[:number])


@final
@dataclass(frozen=True)
class Pixels(Source):
    """CIFAR-10 with channels from 0 to 1, or from −1 to 1, instead of a mean of 0 and a deviation of 1."""

    balanced: bool = False

    def load(self) -> Dataset:
        half = (0.5,) * 3
        shift, scale = (half, half) if self.balanced else ((0.0,) * 3, (1.0,) * 3)
        return replace(Cifar10().load(), shift=shift, scale=scale)


_CLASSES = Classification()


@final
@dataclass(frozen=True)
class Augmented(Task):
    """Classification, but a client sees each image cut out by chance of a margin of four zeros, and half of them
    mirrored."""

    metrics = _CLASSES.metrics

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return _CLASSES.loss(model, _varied(x), y)

    def check(self, dataset: Dataset) -> None:
        _CLASSES.check(dataset)

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:
        _CLASSES.fits(model, x, y, outputs)

    def tally(self, model: Any, x: Any, y: Any) -> Tallies:
        return _CLASSES.tally(model, x, y)

    def conclude(self, totals: Tallies) -> Score:
        return _CLASSES.conclude(totals)


def _varied(x: Any) -> Any:
    import torch
    from torch.nn.functional import pad

    number, _, height, width = x.shape
    rows, columns = (torch.randint(0, 2 * _MARGIN + 1, (number, 1)) + torch.arange(side) for side in (height, width))
    columns = torch.where(torch.rand(number, 1) < 0.5, columns.flip(1), columns)
    each = torch.arange(number)[:, None, None]
    return pad(x, (_MARGIN,) * 4)[each, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2).contiguous()


class Refilling(NamedTuple):
    inner: Any
    asked_at: int = -1


@final
@dataclass(frozen=True)
class AtFlush(Algorithm[Refilling]):
    """A buffered method that asks clients right after a step only."""

    method: Literal["afbs", "fedbuff", "ca2fl"] = "fedbuff"

    @cached_property
    def inner(self) -> Algorithm[Any]:
        made: Algorithm[Any] = registry.find("algorithm", self.method)()
        return made

    @property
    def adds(self) -> bool:
        return self.inner.adds

    @property
    def ships(self) -> Literal["delta", "end"]:
        return self.inner.ships

    @property
    def local(self) -> LocalRule:
        return self.inner.local

    @property
    def clustered(self) -> bool:
        return self.inner.clustered

    @property
    def awaits(self) -> int:
        return self.inner.awaits

    def init(self, clients: Sequence[ClientInfo]) -> Refilling:
        return Refilling(self.inner.init(clients))

    def dispatch(self, state: Refilling, pool: Pool, key: Key) -> tuple[Refilling, Sequence[ClientId | Ask]]:
        if pool.version == state.asked_at and pool.busy:
            return state, ()
        inner, asked = self.inner.dispatch(state.inner, pool, key)
        return Refilling(inner, pool.version), asked

    def receive(self, state: Refilling, update: Update, key: Key) -> tuple[Refilling, Step | None]:
        inner, step = self.inner.receive(state.inner, update, key)
        return state._replace(inner=inner), step

    def lost(self, state: Refilling, order: Order) -> tuple[Refilling, Step | None]:
        inner, step = self.inner.lost(state.inner, order)
        return state._replace(inner=inner), step

    def stalled(self, state: Refilling) -> tuple[Refilling, Step | None]:
        inner, step = self.inner.stalled(state.inner)
        return state._replace(inner=inner), step

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return self.inner.weigh(used)

    def begin(self, params: Vector) -> Memory:
        return self.inner.begin(params)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return self.inner.apply(memory, params, step, vectors)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return self.inner.memory_bytes(parameters, clients)
