"""Draws that several models of heterogeneity need."""

from __future__ import annotations

from statistics import NormalDist

from afbs.seeds import Key
from afbs.types import ClientInfo

_NORMAL = NormalDist()
SHORTEST = 1e-3
"""No job that is drawn takes less, in seconds."""
BRIEFEST, LONGEST = 1e-6, 1e9
"""The least and the most seconds a setting may name. Within a century of virtual time the clock tells moments that
are a microsecond apart; beyond thirty years nothing would end."""
SPREAD = 20.0
"""The most that the logarithm of a duration may be spread: its largest draw is then still a number."""


def standard_normal(key: Key, index: int = 0) -> float:
    return _NORMAL.inv_cdf(max(key.uniform(index), 2.0**-53))


def own(key: Key, client: ClientInfo) -> Key:
    """The client's key, whatever job is asked about."""
    return Key(key.digest, (client.id,))
