"""One look for an algorithm everywhere: colour (light page, dark page), dash and marker.

The colours are told apart by people with the usual colour deficiencies and stand out by at least 3:1 from their
background; dashes and markers tell lines apart without any colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Look(NamedTuple):
    light: str
    dark: str
    dash: str
    marker: str


_KNOWN = {
    "afbs": Look("#0a5bc4", "#6cabff", "solid", "circle"),
    "fedbuff": Look("#c44601", "#ff9d5c", "dash", "square"),
    "ca2fl": Look("#007a63", "#43cfae", "dashdot", "diamond"),
    "fedavg": Look("#4b4b52", "#c3c3cb", "dot", "triangle-up"),
    "feddyn": Look("#a1348e", "#ec93d8", "longdash", "x"),
    "fedasync": Look("#806000", "#dcbc3f", "longdashdot", "cross"),
    "fedfa": Look("#2b8cc4", "#9bdcff", "4px 2px", "star"),
}
_NEXT = (
    Look("#b3123f", "#ff8fa6", "solid", "triangle-down"),
    Look("#5b51c9", "#b3aeff", "dash", "pentagon"),
    Look("#7a4a21", "#d9a878", "dot", "hexagon"),
    Look("#4f7d00", "#a5d053", "dashdot", "triangle-left"),
    Look("#00708f", "#62d2ea", "longdash", "triangle-right"),
    Look("#8a2be2", "#cf9dff", "longdashdot", "star-square"),
)
_NAMES = {
    "afbs": "AFBS",
    "fedbuff": "FedBuff",
    "ca2fl": "CA2FL",
    "fedavg": "FedAvg",
    "feddyn": "FedDyn",
    "fedasync": "FedAsync",
    "fedfa": "FedFa",
}
CLUSTERS = (*_NEXT, *_KNOWN.values())
"""Clusters begin with the colours that no algorithm has, so that neither is taken for the other."""


def looks(algorithms: Sequence[str]) -> list[Look]:
    """A look for each. The first of an algorithm has that algorithm's own; others and unknown ones get the next."""
    taken = {_KNOWN[name] for name in algorithms if name in _KNOWN}
    free = [look for look in (*_NEXT, *_KNOWN.values()) if look not in taken] or list(_NEXT)
    given: list[Look] = []
    spare = 0
    for name in algorithms:
        own = _KNOWN.get(name)
        if own is not None and own not in given:
            given.append(own)
        else:
            given.append(free[spare % len(free)])
            spare += 1
    return given


def display(algorithm: str) -> str:
    """How an algorithm's name is written."""
    return _NAMES.get(algorithm, algorithm)
