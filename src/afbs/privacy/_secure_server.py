"""The server's half of `secure`: who takes part, and how a sum is opened."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.privacy._masking import Words, decode, is_key, ring, unmask
from afbs.privacy._secure_messages import CHOOSE, JOIN, OPEN, SUM, VOUCH, array_in, as_bytes, as_rows, ask, digest_of
from afbs.privacy.halves import Answer
from afbs.privacy.messages import Message, RefusedError
from afbs.types import ClientId, UserError

Array = NDArray[np.float64]


@dataclass
class Crowd:
    """Who takes part in a session, beside whom, and why the others do not."""

    session: int
    alive: list[ClientId]
    publics: dict[ClientId, NDArray[np.uint8]] = field(default_factory=dict)
    refused: dict[ClientId, str] = field(default_factory=dict)
    hesitant: set[ClientId] = field(default_factory=set)
    neighbours: Mapping[ClientId, Sequence[ClientId]] = field(default_factory=dict)

    def drop(self, client: ClientId, answer: Answer | None, otherwise: str) -> None:
        silent = "did not answer" if answer is None else otherwise
        self.refused[client] = str(answer) if isinstance(answer, RefusedError) else silent
        if client in self.alive:
            self.alive.remove(client)

    def excuse(self, client: ClientId, answer: Answer | None, otherwise: str) -> None:
        """A client may refuse once to go on: it may have lost its neighbours, and gets others."""
        if isinstance(answer, RefusedError) and client not in self.hesitant:
            self.hesitant.add(client)
        else:
            self.drop(client, answer, otherwise)

    def seat(self, neighbours: int, rng: np.random.Generator) -> None:
        """A new ring whenever somebody left, so that nobody runs out of neighbours."""
        if len(self.alive) < 3:
            raise UserError(
                f'`clusters.name = "secure"` needs at least 3 clients to hide among; {len(self.alive)} stayed.'
            )
        if set(self.neighbours) != set(self.alive):
            self.neighbours = ring(self.alive, neighbours, rng)


def gather(
    examples: Mapping[ClientId, int], session: int
) -> Generator[Mapping[ClientId, Message], Mapping[ClientId, Answer], Crowd]:
    """Everybody's public key."""
    answers = yield {client: ask(JOIN, session) for client in examples}
    crowd = Crowd(session, sorted(examples))
    for client in sorted(examples):
        public = array_in(answers.get(client), "public", np.uint8, (32,))
        if public is None or not is_key(public.tobytes()):
            crowd.drop(client, answers.get(client), "sent no key")
        else:
            crowd.publics[client] = public
    return crowd


def opened_sum(
    crowd: Crowd, step: int, attempt: int, centroids: Array, size: int
) -> Generator[Mapping[ClientId, Message], Mapping[ClientId, Answer], Array | None]:
    """One attempt at one sum; None if a client left between its vector and its mask."""
    common = {"step": np.array(step), "attempt": np.array(attempt), "clients": np.array(len(crowd.alive))}
    common["centroids"] = centroids
    answers = yield {
        client: ask(SUM, crowd.session)
        | common
        | {
            "neighbours": np.array(crowd.neighbours[client], np.int64),
            "publics": np.array([crowd.publics[other] for other in crowd.neighbours[client]]),
        }
        for client in crowd.alive
    }
    masked: dict[ClientId, Words] = {}
    for client in list(crowd.alive):
        vector = array_in(answers.get(client), "masked", np.uint64, (size,))
        if vector is None:
            crowd.drop(client, answers.get(client), "sent no masked vector of the right length")
        else:
            masked[client] = vector
    alive = set(masked)
    digest = {"digest": as_bytes(digest_of(ask(SUM, crowd.session) | common))}
    there = {client: [other for other in crowd.neighbours[client] if other in alive] for client in masked}
    gone = {client: [other for other in crowd.neighbours[client] if other not in alive] for client in masked}
    answers = yield {
        client: ask(VOUCH, crowd.session)
        | digest
        | {"alive": np.array(there[client], np.int64), "dropped": np.array(gone[client], np.int64)}
        for client in masked
    }
    vouched: dict[ClientId, dict[ClientId, NDArray[Any]]] = {client: {} for client in masked}
    orphaned = []
    complete = True
    for client in masked:
        proofs = array_in(answers.get(client), "vouched", np.uint8, (len(there[client]), 32))
        seeds = array_in(answers.get(client), "seeds", np.uint8, (len(gone[client]), 32))
        if proofs is None or seeds is None:
            crowd.excuse(client, answers.get(client), "did not vouch for its neighbours")
            complete = False
            continue
        for other, proof in zip(there[client], proofs, strict=True):
            vouched[other][client] = proof
        orphaned += [(client, other, seed.tobytes()) for other, seed in zip(gone[client], seeds, strict=True)]
    if not complete:
        return None
    answers = yield {
        client: ask(OPEN, crowd.session)
        | digest
        | {"by": np.array(list(proofs), np.int64), "vouched": as_rows([proof.tobytes() for proof in proofs.values()])}
        for client, proofs in vouched.items()
    }
    own = {client: array_in(answers.get(client), "own", np.uint8, (32,)) for client in masked}
    for client in [client for client, seed in own.items() if seed is None]:
        crowd.excuse(client, answers.get(client), "did not open its own mask")
        complete = False
    if not complete:
        return None
    total: Words = np.sum(np.array(list(masked.values())), axis=0, dtype=np.uint64)
    return decode(unmask(total, [seed.tobytes() for seed in own.values() if seed is not None], orphaned))


def choices(
    crowd: Crowd, centroids: Array
) -> Generator[Mapping[ClientId, Message], Mapping[ClientId, Answer], dict[ClientId, int]]:
    """Everybody's own cluster; whoever names none is dropped."""
    answers = yield {client: ask(CHOOSE, crowd.session) | {"centroids": centroids} for client in crowd.alive}
    found: dict[ClientId, int] = {}
    for client in list(crowd.alive):
        cluster = array_in(answers.get(client), "cluster", np.int64, ())
        if cluster is not None and 0 <= cluster < len(centroids):
            found[client] = int(cluster)
        else:
            crowd.drop(client, answers.get(client), "chose a cluster that does not exist")
    return found
