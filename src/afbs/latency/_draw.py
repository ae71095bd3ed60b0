"""Draws that several models of heterogeneity need."""

from __future__ import annotations

from statistics import NormalDist

from afbs.seeds import Key
from afbs.types import ClientInfo

_NORMAL = NormalDist()
SHORTEST = 1e-3
"""No job takes less, in seconds: a duration must be above zero."""


def standard_normal(key: Key, index: int = 0) -> float:
    return _NORMAL.inv_cdf(max(key.uniform(index), 2.0**-53))


def own(key: Key, client: ClientInfo) -> Key:
    """The client's key, whatever job is asked about."""
    return Key(key.digest, (client.id,))
