"""Sums of vectors that nobody shows: pairwise masks that cancel, after Bonawitz et al. (CCS 2017, ePrint 2017/281).

Every client shares a mask with each of its neighbours; one of the two adds it and the other subtracts it. Besides it
adds a mask of its own, which it gives away once the server has said whose vectors it has. Numbers are fixed-point
modulo 2^64, so that a masked vector is uniformly distributed, whatever it hides.

Neighbours lie on a ring in random order, not in all pairs: a few dozen each suffice (Bell et al., CCS 2020, ePrint
2020/704), and 600 clients agree on 6,000 secrets rather than 180,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from afbs.privacy.keys import derive, words
from afbs.types import ClientId

Words = NDArray[np.uint64]

SCALE = 2.0**32
"""Units of the fixed point: 2^31 clients could add numbers as large as one before a sum overflows."""


def key_pair(own: bytes, purpose: str) -> tuple[X25519PrivateKey, bytes]:
    """A client's key pair for one session: the private key stays, the public one goes to its neighbours."""
    private = X25519PrivateKey.from_private_bytes(derive(own, purpose))
    return private, private.public_key().public_bytes_raw()


def agree(private: X25519PrivateKey, public: bytes) -> bytes:
    """What the holders of the two private keys, and nobody else, can compute."""
    return private.exchange(X25519PublicKey.from_public_bytes(public))


def is_key(public: bytes) -> bool:
    """Whether others can agree on a secret with the holder of this key: a few points make every secret zero."""
    try:
        agree(X25519PrivateKey.from_private_bytes(bytes(32)), public)
    except ValueError:
        return False
    return True


def ring(clients: Sequence[ClientId], neighbours: int, rng: np.random.Generator) -> dict[ClientId, list[ClientId]]:
    """Each client's neighbours: the nearest ones on a ring in random order, half of them on either side."""
    order = [clients[place] for place in rng.permutation(len(clients))]
    if len(order) - 1 <= neighbours:
        return {client: [other for other in order if other != client] for client in order}
    steps = [step for step in range(-(neighbours // 2), neighbours // 2 + 1) if step]
    return {client: [order[(i + step) % len(order)] for step in steps] for i, client in enumerate(order)}


def encode(values: NDArray[np.float64]) -> Words:
    return np.rint(values * SCALE).astype(np.int64).view(np.uint64)


def decode(total: Words) -> NDArray[np.float64]:
    return np.asarray(total.view(np.int64) / SCALE)


def mask(client: ClientId, values: Words, own: bytes, seeds: Mapping[ClientId, bytes]) -> Words:
    """The vector under its client's own mask and those shared with its neighbours. Wraps around, as it should."""
    masked = values + words(own, len(values))
    for neighbour, seed in seeds.items():
        masked = _shift(masked, client, neighbour, seed)
    return masked


def unmask(total: Words, own: Iterable[bytes], orphaned: Iterable[tuple[ClientId, ClientId, bytes]]) -> Words:
    """The sum of the vectors, from the sum of the masked ones.

    `own` are the survivors' own masks; `orphaned` has (survivor, dropped neighbour, seed) for every mask whose other
    half never came.
    """
    for seed in own:
        total = total - words(seed, len(total))
    for survivor, dropped, seed in orphaned:
        total = _shift(total, dropped, survivor, seed)
    return total


def _shift(values: Words, client: ClientId, neighbour: ClientId, seed: bytes) -> Words:
    shared = words(seed, len(values))
    return values + shared if client < neighbour else values - shared
