"""The messages of `secure`: what is asked, and how bytes travel as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.privacy.halves import Answer
from afbs.privacy.messages import Message, RefusedError, Shape, exact

JOIN, SUM, VOUCH, OPEN, CHOOSE = range(5)
ATTEMPTS = 5
"""How often a step is tried before the network is called too unreliable."""


def ask(what: int, session: int) -> dict[str, NDArray[Any]]:
    return {"ask": np.array(what), "session": np.array(session)}


def digest_of(question: Message) -> bytes:
    """Names a sum. Masks are bound to it: two clients that were asked different things do not cancel each other."""
    content = sha256()
    for name in ("session", "step", "attempt", "clients", "centroids"):
        array = np.ascontiguousarray(question[name], "<f8")
        content.update(f"{name}{array.shape}".encode() + array.tobytes())
    return content.digest()


def as_bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


def as_rows(contents: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), 32)


def array_in(answer: Answer | None, name: str, kind: Any, shape: Shape) -> NDArray[Any] | None:
    """What an answer holds under this name, if it is what it should be."""
    if answer is None or isinstance(answer, RefusedError):
        return None
    try:
        return exact(answer, name, kind, shape)
    except RefusedError:
        return None
