"""The client's half of `secure`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from afbs.core.sketch import proportions
from afbs.privacy._halves import Message, RefusedError, checked_counts
from afbs.privacy._keys import Secrets, derive, normals
from afbs.privacy._masking import agree, encode, key_pair, mask
from afbs.privacy._secure_messages import ATTEMPTS, JOIN, OPEN, SUM, VOUCH, as_bytes, as_rows, digest_of
from afbs.types import ClientId

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client agreed to."""

    steps: int
    noise: float
    neighbours: int
    releases: int


class Pair(NamedTuple):
    """What two neighbours share for one sum: the mask, and a word from each to the other that it is there."""

    mask: bytes
    from_smaller: bytes
    from_larger: bytes

    def vouched_by(self, client: ClientId, neighbour: ClientId) -> bytes:
        return self.from_smaller if client < neighbour else self.from_larger


@dataclass
class Promise:
    """What a client did for one sum: whose masks are in its vector, and whom it vouched for."""

    pairs: dict[ClientId, Pair] = field(repr=False)
    alive: frozenset[ClientId] | None = None


class SecureClient:
    """Holds the label counts and answers with masked vectors. It remembers what it gave away, and gives no more."""

    def __init__(self, terms: Terms, client: ClientId, counts: NDArray[Any], secrets: Secrets) -> None:
        self._terms = terms
        self._id = client
        self._counts = counts
        self._secrets = secrets
        self._keys: dict[int, X25519PrivateKey] = {}
        self._agreed: dict[tuple[int, bytes], bytes] = {}
        self._promises: dict[bytes, Promise] = {}
        self._chosen: dict[int, bytes] = {}

    def answer(self, question: Message) -> Message:
        session = int(question["session"])
        if not 0 <= session < self._terms.releases:
            raise RefusedError(f"{self._terms.releases} session(s) were planned; this would be one more")
        row = self._row
        asked = int(question["ask"])
        if asked == JOIN:
            return {"public": as_bytes(key_pair(self._own(session), "secure/key")[1])}
        if asked == SUM:
            return self._masked(question, session, row)
        if asked == VOUCH:
            return self._vouch(question)
        if asked == OPEN:
            return self._open(question, session)
        return self._choose(question["centroids"], session, row)

    @cached_property
    def _row(self) -> Array:
        return proportions(checked_counts(self._counts))

    def _own(self, session: int) -> bytes:
        """Bound to the counts as well: were they to change, the same mask must not be laid over two vectors."""
        return derive(self._secrets.own + np.asarray(self._counts, "<i8").tobytes(), f"secure/{session}")

    def _masked(self, question: Message, session: int, row: Array) -> Message:
        centroids = question["centroids"]
        if centroids.shape[2] != len(row):
            raise RefusedError(f"has counts of {len(row)} labels where there are {centroids.shape[2]}")
        crowd = int(question["clients"])
        ids = question["neighbours"].tolist()
        if len(set(ids) - {self._id}) < min(self._terms.neighbours // 2 * 2, crowd - 1):
            raise RefusedError("was given fewer neighbours than agreed")
        digest = digest_of(question)
        if digest not in self._promises and len(self._promises) > self._terms.releases * (self._terms.steps + ATTEMPTS):
            raise RefusedError("was asked for more sums than agreed")
        own = self._own(session)
        values = contribution(row, centroids, judged=int(question["step"]) == self._terms.steps)
        values += self._terms.noise / crowd**0.5 * normals(derive(own + digest, "secure/noise"), len(values))
        pairs = {
            neighbour: self._pair(session, own, public.tobytes(), digest)
            for neighbour, public in zip(ids, question["publics"], strict=True)
        }
        if self._promises.setdefault(digest, Promise(pairs)).pairs != pairs:
            raise RefusedError("was given other neighbours for the same sum")  # one mask must not cover two vectors
        seeds = {neighbour: pair.mask for neighbour, pair in pairs.items()}
        return {"masked": mask(self._id, encode(values), derive(own + digest, "secure/own"), seeds)}

    def _pair(self, session: int, own: bytes, public: bytes, digest: bytes) -> Pair:
        agreed = self._agreed.get((session, public))
        if agreed is None:
            private = self._keys.get(session) or self._keys.setdefault(session, key_pair(own, "secure/key")[0])
            agreed = self._agreed[session, public] = agree(private, public)
        words = derive(agreed + digest, "secure/pair", 96)
        return Pair(words[:32], words[32:64], words[64:])

    def _vouch(self, question: Message) -> Message:
        _, promise = self._promised(question)
        alive, dropped = question["alive"].tolist(), question["dropped"].tolist()
        if sorted(alive + dropped) != sorted(promise.pairs):
            raise RefusedError("was told of other neighbours than before")
        if promise.alive not in (None, frozenset(alive)):
            raise RefusedError("was told twice, and differently, who is there")
        if 2 * len(alive) <= len(promise.pairs):
            raise RefusedError("too few of its neighbours are there")
        promise.alive = frozenset(alive)
        return {
            "vouched": as_rows([promise.pairs[other].vouched_by(self._id, other) for other in alive]),
            "seeds": as_rows([promise.pairs[other].mask for other in dropped]),
        }

    def _open(self, question: Message, session: int) -> Message:
        digest, promise = self._promised(question)
        given = dict(zip(question["by"].tolist(), question["vouched"], strict=True))
        proven = {
            other
            for other, pair in promise.pairs.items()
            if other in given and given[other].tobytes() == pair.vouched_by(other, self._id)
        }
        if promise.alive is None or 2 * len(proven & promise.alive) <= len(promise.pairs):
            raise RefusedError("too few of its neighbours vouch for it")
        return {"own": as_bytes(derive(self._own(session) + digest, "secure/own"))}

    def _choose(self, centroids: Array, session: int, row: Array) -> Message:
        """Once a session: every further choice between other centroids would tell more."""
        if centroids.shape[1] != len(row):
            raise RefusedError(f"has counts of {len(row)} labels where there are {centroids.shape[1]}")
        content = np.ascontiguousarray(centroids, "<f8").tobytes()
        if self._chosen.setdefault(session, content) != content:
            raise RefusedError("was asked twice to choose a cluster")
        return {"cluster": np.array(((centroids - row) ** 2).sum(axis=1).argmin())}

    def _promised(self, question: Message) -> tuple[bytes, Promise]:
        digest = question["digest"].tobytes()
        if digest not in self._promises:
            raise RefusedError("was asked to open a sum it has no part in")
        return digest, self._promises[digest]


def contribution(row: Array, centroids: Array, judged: bool) -> Array:
    """For every start and cluster: whether it is this client's, and its proportions if so.

    The squared distance, by which starts are judged, is told in the last step alone: it is not needed before.
    """
    starts, number, classes = centroids.shape
    distance = ((centroids - row) ** 2).sum(axis=2)
    mine = distance.argmin(axis=1)
    values = np.zeros((starts, number, classes + 2))
    everywhere = np.arange(starts)
    values[everywhere, mine, 0] = 1.0
    values[everywhere, mine, 1:-1] = row
    if judged:
        values[:, 0, -1] = distance[everywhere, mine]
    return values.ravel()
