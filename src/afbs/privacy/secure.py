"""Lloyd's algorithm over sums: the server learns the centroids and one cluster id a client.

What leaves a client: for every step a vector that says in which cluster it is (a one there, and its label proportions),
masked so that only the sum over all clients can be read (`_masking`); in the end its cluster's number. Each sum carries
Gaussian noise, to which every client adds its share: without it, the difference of two sums between which one client
moved, or dropped out, would be that client's proportions.

All starts of K-means advance in the same messages. A step takes three exchanges:

    SUM     the centroids go out; masked vectors come back
    VOUCH   clients hear who sent one. They vouch for those neighbours, and give away the masks they shared with the
            others for this step; never both for the same neighbour
    OPEN    a client for whom most of its neighbours vouch gives away its own mask of this step

A client that is silent is left out of the steps that follow and of the clusters. If it is silent after its vector was
counted, the sum cannot be read, and the step is done again without it. `docs/privacy.md` says what this does not
protect: a server that hands out false keys, and clients that lie about numbers nobody can see.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.core.calibration import gaussian_epsilon
from afbs.core.clustering import Partitioned, ordered_ids, renamed
from afbs.privacy._secure_client import SecureClient, Terms
from afbs.privacy._secure_messages import ATTEMPTS
from afbs.privacy._secure_server import Crowd, choices, gather, opened_sum
from afbs.privacy.exposure import Exposure
from afbs.privacy.halves import Answer, Talk, TwoHalves, check_answers
from afbs.privacy.keys import Secrets
from afbs.privacy.messages import Message
from afbs.seeds import Key
from afbs.types import ClientId, Grouping, UserError

Array = NDArray[np.float64]
SPREAD = 0.2
"""How far from the mean of all clients a start puts its centroids, on the way to a random distribution."""

NIL = 1e-6
"""Noise below this promises nothing that is worth a number."""

Sum: TypeAlias = Generator[Mapping[ClientId, Message], Mapping[ClientId, Answer], Array]


@final
@dataclass(frozen=True)
class Secure(TwoHalves):
    """Clients send masked vectors of which the server reads only sums; it learns centroids and one id a client."""

    number: Annotated[int, Ge(1)] = 1
    """How many clusters; 1 asks nobody anything."""
    starts: Annotated[int, Ge(1), Le(1000)] = 8
    """How often K-means starts anew, side by side."""
    steps: Annotated[int, Ge(1), Le(1000)] = 8
    """Of K-means."""
    noise: Annotated[float, Ge(0), Le(1e6)] = 1.0
    """Of each sum, in samples."""
    neighbours: Annotated[int, Ge(2), Le(1000)] = 20
    """With how many others a client masks its vectors."""
    releases: Annotated[int, Ge(1), Le(10_000)] = 1
    """How often clients answer."""

    def client(
        self, client: ClientId, counts: NDArray[Any], secrets: Secrets, remembered: Message | None = None
    ) -> SecureClient:
        terms = Terms(self.number, self.starts, self.steps, self.noise, self.neighbours, self.releases)
        return SecureClient(terms, client, counts, secrets, remembered)

    def found(
        self,
        examples: Mapping[ClientId, int],
        classes: int,
        key: Key,
        most: int = 10,
        before: Grouping | None = None,
        watch: Callable[[Array], None] = lambda sums: None,
    ) -> Talk:
        """`watch` is shown every sum as it is opened."""
        session = 0 if before is None else int(before.notes["releases"])
        rng = key.generator()
        crowd = yield from gather(examples, session)
        check_answers(self.number, len(crowd.alive), crowd.refused)
        first = yield from self._sum(crowd, 0, np.zeros((1, 1, classes)), rng)
        mean = _to_simplex(first[0, 0, 1 : 1 + classes])
        centroids = _scattered(mean, (self.starts, self.number), rng)
        inertia = np.zeros(self.starts)
        for step in range(1, self.steps + 1):
            opened = yield from self._sum(crowd, step, centroids, rng)
            watch(opened)
            inertia = opened[:, 0, -1]
            fallback = centroids if step == self.steps else _scattered(mean, centroids.shape[:2], rng)
            centroids = _moved(opened[:, :, 0], opened[:, :, 1:-1], fallback, least=max(2.0, 3 * self.noise))
        best = centroids[int(np.argmin(inertia))]
        if before is not None and before.centroids is not None:
            best = renamed(Partitioned(np.arange(len(best)), best), before.centroids).centroids
        cluster_of = yield from choices(crowd, best)
        if before is None:
            best, cluster_of = _by_size(best, cluster_of)
        return self.grouping(cluster_of, crowd.refused, best, classes, session + 1)

    def admit(self, grouping: Grouping, examples: Mapping[ClientId, int], classes: int) -> Talk:
        """They are sent the centroids and say which is nearest."""
        assert grouping.centroids is not None
        crowd = Crowd(0, list(examples))
        cluster_of = yield from choices(crowd, grouping.centroids)
        return self.enlarged(grouping, cluster_of, crowd.refused, classes)

    @property
    def sums(self) -> int:
        """How many sums are opened, counting each start by itself."""
        return self.steps * self.starts + 1

    def epsilon(self, delta: float = 1e-5) -> float | None:
        """What all the noisy sums, of all planned releases, promise a whole client; None, for nothing, if noise is nil.

        A client that is replaced moves one of two clusters' numbers (2) and proportions (2), and a distance (2² = 4),
        in squares.
        """
        moved = (self.releases * (4 * self.sums + 4 * self.starts)) ** 0.5
        return round(gaussian_epsilon(self.noise / moved, delta), 1) if self.noise > NIL else None

    def _sum(self, crowd: Crowd, step: int, centroids: Array, rng: np.random.Generator) -> Sum:
        """The opened sums, for every start and cluster: clients, proportions, and in the last step the inertia."""
        starts, number, classes = centroids.shape
        size = starts * number * (classes + 2)
        for attempt in range(ATTEMPTS):
            crowd.seat(self.neighbours, rng)
            total = yield from opened_sum(crowd, step, attempt, centroids, size)
            if total is not None:
                break
        else:
            raise UserError(f"Clients left during each of {ATTEMPTS} attempts to add up their labels: too few stay.")
        sums = total.reshape(starts, number, classes + 2)
        slack = 8 * self.noise * (number * (classes + 1)) ** 0.5 + 1e-3
        believable = np.abs(sums[:, :, 0].sum(axis=1) - len(crowd.alive)) <= slack
        believable &= np.abs(sums[:, :, 1:-1].sum(axis=(1, 2)) - len(crowd.alive)) <= slack
        if not believable.all() or sums[:, :, :-1].min() < -slack:
            raise UserError(
                "The sum of the clients' labels cannot be true: some client sent numbers that no labels give. "
                "`secure` shows nobody's numbers, so it cannot say whose; `dp` can."
            )
        return sums

    def released(self, classes: int) -> dict[str, Any]:
        return {
            "what": f"sums over all clients for {self.steps} steps of {self.starts} starts, with noise; "
            "one cluster id a client",
            "noise": self.noise,
            "epsilon_for_a_whole_client": self.epsilon(),
            "neighbours": self.neighbours,
            "protects": "each client's labels, but for its cluster id, against a server that follows the protocol",
        }

    def exposure(self, table: NDArray[np.int64], key: Key) -> Exposure:
        from afbs.privacy._attack_secure import exposure

        return exposure(self, table, key)


def _moved(clients: Array, sums: Array, fallback: Array, least: float) -> Array:
    """Lloyd's step; a cluster with hardly a client starts elsewhere."""
    means = _to_simplex(sums / np.maximum(clients, 1.0)[..., None])
    return np.where((clients >= least)[..., None], means, fallback)


def _scattered(mean: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return np.asarray((1 - SPREAD) * mean + SPREAD * rng.dirichlet(np.full(len(mean), 0.3), size=shape))


def _to_simplex(rows: Array) -> Array:
    """Proportions again, after the noise: clipped and normalised."""
    clipped = np.maximum(rows, 0.0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1.0 / rows.shape[-1])


def _by_size(centroids: Array, cluster_of: Mapping[ClientId, int]) -> tuple[Array, dict[ClientId, int]]:
    """Clusters numbered by size; those that nobody chose are gone."""
    clients = sorted(cluster_of)
    old = np.array([cluster_of[client] for client in clients], dtype=np.int64)
    new = ordered_ids(old)
    _, first = np.unique(new, return_index=True)
    return centroids[old[first]], dict(zip(clients, new.tolist(), strict=True))
