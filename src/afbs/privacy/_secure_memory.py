"""What a client of `secure` must not forget: to which sums it gave its part, and what it was told of them.

It holds public keys and digests, no masks: those follow from the client's own secret again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from afbs.privacy._secure_messages import as_rows
from afbs.privacy.messages import Message, RefusedError, exact
from afbs.types import ClientId


@dataclass
class Promise:
    """What a client did for one sum: beside whom (and under which keys) its vector was masked, whom it vouched for."""

    session: int
    neighbours: dict[ClientId, bytes]
    alive: frozenset[ClientId] | None = None


@dataclass
class Remembered:
    labels: dict[int, bytes] = field(default_factory=dict)
    """For each session a digest of the labels it began with."""
    chosen: dict[int, bytes] = field(default_factory=dict)
    """For each session a digest of the centroids between which the client chose."""
    promises: dict[bytes, Promise] = field(default_factory=dict)

    def message(self) -> Message:
        promises = self.promises.values()
        beside = [(promise, neighbour) for promise in promises for neighbour in promise.neighbours]
        return {
            "sessions": np.array(list(self.labels), np.int64),
            "labels": as_rows(list(self.labels.values())),
            "choices": np.array(list(self.chosen), np.int64),
            "chosen": as_rows(list(self.chosen.values())),
            "sums": as_rows(list(self.promises)),
            "sessions_of_sums": np.array([promise.session for promise in promises], np.int64),
            "told": np.array([promise.alive is not None for promise in promises], np.uint8),
            "sizes": np.array([len(promise.neighbours) for promise in promises], np.int64),
            "neighbours": np.array([neighbour for _, neighbour in beside], np.int64),
            "publics": as_rows([promise.neighbours[neighbour] for promise, neighbour in beside]),
            "alive": np.array([neighbour in (promise.alive or ()) for promise, neighbour in beside], np.uint8),
        }


def restored(message: Message) -> Remembered:
    """The memory again. One that is damaged is refused as a whole: half a memory would keep half the promises."""
    sessions = exact(message, "sessions", np.int64, (None,)).tolist()
    labels = exact(message, "labels", np.uint8, (len(sessions), 32))
    choices = exact(message, "choices", np.int64, (None,)).tolist()
    chosen = exact(message, "chosen", np.uint8, (len(choices), 32))
    sums = exact(message, "sums", np.uint8, (None, 32))
    session_of = exact(message, "sessions_of_sums", np.int64, (len(sums),)).tolist()
    told = exact(message, "told", np.uint8, (len(sums),)).tolist()
    sizes = exact(message, "sizes", np.int64, (len(sums),))
    neighbours = exact(message, "neighbours", np.int64, (None,))
    publics = exact(message, "publics", np.uint8, (len(neighbours), 32))
    alive = exact(message, "alive", np.uint8, (len(neighbours),))
    if np.any(sizes < 0) or sizes.sum() != len(neighbours):
        raise RefusedError("what it remembers does not fit together")
    promises = {}
    ends = np.cumsum(sizes)
    for place, digest in enumerate(sums):
        mine = slice(int(ends[place] - sizes[place]), int(ends[place]))
        ids = neighbours[mine].tolist()
        there = frozenset(other for other, flag in zip(ids, alive[mine].tolist(), strict=True) if flag)
        keys = {other: public.tobytes() for other, public in zip(ids, publics[mine], strict=True)}
        promises[digest.tobytes()] = Promise(session_of[place], keys, there if told[place] else None)
    return Remembered(
        {session: row.tobytes() for session, row in zip(sessions, labels, strict=True)},
        {session: row.tobytes() for session, row in zip(choices, chosen, strict=True)},
        promises,
    )
