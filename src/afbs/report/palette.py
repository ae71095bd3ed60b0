"""One look for an algorithm everywhere: colour (light page, dark page), dash and marker.

The colours are told apart by people with the usual colour deficiencies and stand out by at least 3:1 from their
background; dashes and markers tell lines apart without any colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32


class Look(NamedTuple):
    light: str
    dark: str
    dash: str
    marker: str


LOOKS = (
    Look("#2b8cc4", "#9bdcff", "4px 2px", "star"),
    Look("#b3123f", "#ff8fa6", "solid", "triangle-down"),
    Look("#a1348e", "#ec93d8", "longdash", "x"),
    Look("#806000", "#dcbc3f", "longdashdot", "cross"),
    Look("#4b4b52", "#c3c3cb", "dot", "triangle-up"),
    Look("#5b51c9", "#b3aeff", "dash", "pentagon"),
    Look("#7a4a21", "#d9a878", "dot", "hexagon"),
    Look("#0a5bc4", "#6cabff", "solid", "circle"),
    Look("#c44601", "#ff9d5c", "dash", "square"),
    Look("#4f7d00", "#a5d053", "dashdot", "triangle-left"),
    Look("#00708f", "#62d2ea", "longdash", "triangle-right"),
    Look("#007a63", "#43cfae", "dashdot", "diamond"),
    Look("#8a2be2", "#cf9dff", "longdashdot", "star-square"),
)
_RARE = (1, 5, 6, 9, 10, 12)
CLUSTERS = (*(LOOKS[i] for i in _RARE), *(look for i, look in enumerate(LOOKS) if i not in _RARE))
"""Clusters begin with colours that algorithms seldom have, so that neither is taken for the other."""


def looks(algorithms: Sequence[str]) -> list[Look]:
    """A look for each. A name has its own, the same in every figure; where that is taken it gets the next free one."""
    owners: dict[int, int] = {}
    for i, name in enumerate(algorithms):
        owners.setdefault(_own(name), i)
    given = {i: place for place, i in owners.items()}
    free = [place for place in range(len(LOOKS)) if place not in owners]
    spare = 0
    for i in range(len(algorithms)):
        if i not in given:
            given[i] = free[spare % len(free)] if free else i % len(LOOKS)
            spare += 1
    return [LOOKS[given[i]] for i in range(len(algorithms))]


def _own(name: str) -> int:
    """By the name alone, so that nobody has to be listed here."""
    return crc32(f"look {name}".encode(errors="replace")) % len(LOOKS)
