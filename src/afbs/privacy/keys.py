"""Secrets, and numbers drawn from them: HKDF to derive keys, ChaCha20 to stretch one into as many bits as needed.

The stream is ChaCha20's own and the normal deviates are an inverse distribution function of it, so every client gets
the same projection from the same secret whatever version of numpy it has.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from afbs.seeds import Key
from afbs.types import ClientId, UserError

SHORTEST = 16
"""A secret with fewer bytes can be found by trying."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a client knows and the server never sees. Nothing of it appears when it is printed."""

    own: bytes = field(repr=False)
    """32 bytes of this client's own, from which all its noise and keys come."""
    shared: bytes | None = field(default=None, repr=False)
    """What all clients share."""


def simulated(key: Key, client: ClientId, shared: bytes | None = None) -> Secrets:
    """The secrets of a simulated client: they follow from the seed, so whoever knows the seed knows them."""
    return Secrets(key.child(0, client).generator().bytes(32), shared or key.child(1).generator().bytes(32))


def read_secret(file: str, variable: str) -> bytes | None:
    """The shared secret from where the settings say it is, or None if they say nothing. It is never quoted."""
    if file and variable:
        raise UserError("`clusters.secret_file` and `clusters.secret_env` are both set; keep the one that is meant.")
    if file:
        try:
            secret = Path(file).read_bytes().strip()
        except OSError as error:
            raise UserError(f"`clusters.secret_file`: {file} cannot be read ({error.strerror}).") from None
        return _long_enough(secret, f"the file named by `clusters.secret_file` ({file})")
    if variable:
        if variable not in os.environ:
            raise UserError(f"`clusters.secret_env`: there is no environment variable called {variable}.")
        return _long_enough(os.environb[variable.encode()].strip(), f"the environment variable {variable}")
    return None


def derive(secret: bytes, purpose: str, size: int = 32) -> bytes:
    """A key for one purpose."""
    return HKDF(SHA256(), size, salt=None, info=f"afbs/{purpose}".encode()).derive(secret)


def words(key: bytes, number: int) -> NDArray[np.uint64]:
    """Uniform 64-bit numbers: ChaCha20's stream under a key that is used for nothing else."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * number))
    return np.frombuffer(stream, dtype="<u8")


def normals(key: bytes, *shape: int) -> NDArray[np.float64]:
    """Standard normal numbers."""
    from scipy.special import ndtri

    uniform = ((words(key, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform).reshape(shape))


def _long_enough(secret: bytes, where: str) -> bytes:
    if len(secret) < SHORTEST:
        raise UserError(f"The secret in {where} must have at least {SHORTEST} bytes: `openssl rand -hex 32` makes one.")
    return secret
