"""The client's half of `secure`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from afbs.core.sketch import proportions
from afbs.privacy._masking import agree, encode, key_pair, mask
from afbs.privacy._secure_memory import Promise, Remembered, restored
from afbs.privacy._secure_messages import ATTEMPTS, CHOOSE, JOIN, OPEN, SUM, VOUCH, as_bytes, as_rows, digest_of
from afbs.privacy.halves import checked_counts
from afbs.privacy.keys import Secrets, derive, normals
from afbs.privacy.messages import Message, RefusedError, Shape, exact, numbers, whole
from afbs.types import ClientId

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client agreed to."""

    number: int
    starts: int
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


class SecureClient:
    """Holds the label counts and answers with masked vectors. It remembers what it gave away, and gives no more."""

    def __init__(
        self, terms: Terms, client: ClientId, counts: NDArray[Any], secrets: Secrets, remembered: Message | None
    ) -> None:
        self._terms = terms
        self._id = client
        self._counts = counts
        self._secrets = secrets
        self._memory = Remembered() if remembered is None else restored(remembered)
        # What follows from the secrets and the memory, kept because it takes time to compute.
        self._owns: dict[int, bytes] = {}
        """What all of a session's noise and keys come from. Bound to the counts as well as to the secret: were they to
        change, the same mask must not be laid over two vectors."""
        self._keys: dict[int, X25519PrivateKey] = {}
        self._agreed: dict[tuple[int, bytes], bytes] = {}
        self._pairs: tuple[bytes, dict[ClientId, Pair]] = b"", {}

    def answer(self, question: Message) -> Message:
        session = whole(question, "session")
        if session >= self._terms.releases:
            raise RefusedError(f"{self._terms.releases} session(s) were planned; this would be one more")
        row = self._row
        if session not in self._owns:
            own = derive(self._secrets.own + np.asarray(self._counts, "<i8").tobytes(), f"secure/{session}")
            labels = derive(own, "secure/labels")
            if self._memory.labels.setdefault(session, labels) != labels:
                raise RefusedError("its labels changed since the session began")
            self._owns[session] = own
        asked = whole(question, "ask", CHOOSE)
        if asked == JOIN:
            return {"public": as_bytes(key_pair(self._owns[session], "secure/key")[1])}
        if asked == SUM:
            return self._masked(question, session, row)
        if asked == VOUCH:
            return self._vouch(question, session)
        if asked == OPEN:
            return self._open(question, session)
        return self._choose(question, session, row)

    def remembered(self) -> Message:
        return self._memory.message()

    @cached_property
    def _row(self) -> Array:
        return proportions(checked_counts(self._counts))

    def _masked(self, question: Message, session: int, row: Array) -> Message:
        centroids = _proportions(question, (None, None, None))
        starts, number, classes = centroids.shape
        if classes != len(row):
            raise RefusedError(f"has counts of {len(row)} labels where there are {classes}")
        if not (1 <= starts <= self._terms.starts and 1 <= number <= self._terms.number):
            raise RefusedError("was asked for more starts or clusters than agreed")
        step = whole(question, "step", self._terms.steps)
        whole(question, "attempt", ATTEMPTS - 1)
        crowd = max(1, whole(question, "clients"))
        beside = self._neighbours(question, crowd)
        digest = digest_of(question)
        promises = self._memory.promises
        if digest not in promises and len(promises) > self._terms.releases * (self._terms.steps + ATTEMPTS):
            raise RefusedError("was asked for more sums than agreed")
        own = self._owns[session]
        values = contribution(row, centroids, judged=step == self._terms.steps)
        values += self._terms.noise / crowd**0.5 * normals(derive(own + digest, "secure/noise"), len(values))
        promise = promises.get(digest, Promise(session, beside))
        if promise.neighbours != beside:
            raise RefusedError("was given other neighbours for the same sum")  # one mask must not cover two vectors
        seeds = {neighbour: pair.mask for neighbour, pair in self._shared(digest, promise).items()}
        promises[digest] = promise
        return {"masked": mask(self._id, encode(values), derive(own + digest, "secure/own"), seeds)}

    def _neighbours(self, question: Message, crowd: int) -> dict[ClientId, bytes]:
        """The neighbours' public keys."""
        ids = exact(question, "neighbours", np.int64, (None,)).tolist()
        publics = exact(question, "publics", np.uint8, (len(ids), 32))
        if len(set(ids) - {self._id}) != len(ids):
            raise RefusedError("was given a neighbour twice, or itself")
        if len(ids) < min(self._terms.neighbours // 2 * 2, crowd - 1):
            raise RefusedError("was given fewer neighbours than agreed")
        return {neighbour: public.tobytes() for neighbour, public in zip(ids, publics, strict=True)}

    def _shared(self, digest: bytes, promise: Promise) -> dict[ClientId, Pair]:
        """What it shares with each neighbour for one sum; of the last sum they are at hand."""
        if self._pairs[0] != digest:
            pairs = {other: self._pair(promise.session, public, digest) for other, public in promise.neighbours.items()}
            self._pairs = digest, pairs
        return self._pairs[1]

    def _pair(self, session: int, public: bytes, digest: bytes) -> Pair:
        agreed = self._agreed.get((session, public))
        if agreed is None:
            private = self._keys.get(session)
            if private is None:
                private = self._keys[session] = key_pair(self._owns[session], "secure/key")[0]
            try:
                agreed = self._agreed[session, public] = agree(private, public)
            except ValueError:
                raise RefusedError("was given a key that is none") from None
        words = derive(agreed + digest, "secure/pair", 96)
        return Pair(words[:32], words[32:64], words[64:])

    def _vouch(self, question: Message, session: int) -> Message:
        digest, promise = self._promised(question, session)
        alive = exact(question, "alive", np.int64, (None,)).tolist()
        dropped = exact(question, "dropped", np.int64, (None,)).tolist()
        if sorted(alive + dropped) != sorted(promise.neighbours):
            raise RefusedError("was told of other neighbours than before")
        if promise.alive not in (None, frozenset(alive)):
            raise RefusedError("was told twice, and differently, who is there")
        if 2 * len(alive) <= len(promise.neighbours):
            raise RefusedError("too few of its neighbours are there")
        promise.alive = frozenset(alive)
        pairs = self._shared(digest, promise)
        return {
            "vouched": as_rows([pairs[other].vouched_by(self._id, other) for other in alive]),
            "seeds": as_rows([pairs[other].mask for other in dropped]),
        }

    def _open(self, question: Message, session: int) -> Message:
        digest, promise = self._promised(question, session)
        by = exact(question, "by", np.int64, (None,)).tolist()
        given = dict(zip(by, exact(question, "vouched", np.uint8, (len(by), 32)), strict=True))
        proven = {
            other
            for other, pair in self._shared(digest, promise).items()
            if other in given and given[other].tobytes() == pair.vouched_by(other, self._id)
        }
        if promise.alive is None or 2 * len(proven & promise.alive) <= len(promise.neighbours):
            raise RefusedError("too few of its neighbours vouch for it")
        return {"own": as_bytes(derive(self._owns[session] + digest, "secure/own"))}

    def _choose(self, question: Message, session: int, row: Array) -> Message:
        """Once a session: every further choice between other centroids would tell more."""
        centroids = _proportions(question, (None, None))
        if centroids.shape[1] != len(row):
            raise RefusedError(f"has counts of {len(row)} labels where there are {centroids.shape[1]}")
        if not 1 <= len(centroids) <= self._terms.number:
            raise RefusedError("was asked for more starts or clusters than agreed")
        content = sha256(np.ascontiguousarray(centroids, "<f8").tobytes()).digest()
        if self._memory.chosen.setdefault(session, content) != content:
            raise RefusedError("was asked twice to choose a cluster")
        return {"cluster": np.array(((centroids - row) ** 2).sum(axis=1).argmin())}

    def _promised(self, question: Message, session: int) -> tuple[bytes, Promise]:
        digest = exact(question, "digest", np.uint8, (32,)).tobytes()
        promise = self._memory.promises.get(digest)
        if promise is None or promise.session != session:
            raise RefusedError("was asked to open a sum it has no part in")
        return digest, promise


def _proportions(question: Message, shape: Shape) -> Array:
    centroids = numbers(question, "centroids", shape)
    if centroids.size and np.abs(centroids).max() > 1 + 1e-9:
        raise RefusedError("was sent centroids that are no label proportions")
    return centroids


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
