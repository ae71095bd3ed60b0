"""Run folders as digests, one after the other, so that only one run at a time is in memory whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from afbs.record import reader
from afbs.report.digest import Digest, digest

_POINTS = 60_000
_CLIENTS = 40_000
_BINS = 1_500
"""What the page may hold of all runs together: with plotly's own 4.8 MB it then stays below 10 MB."""


def digests(folders: Iterable[str | Path]) -> list[Digest]:
    """The more runs there are, the fewer points each may have: the page stays small."""
    found = reader.find(folders)
    points = max(40, min(500, _POINTS // len(found)))
    clients = max(60, min(5000, _CLIENTS // len(found)))
    bins = max(12, min(50, _BINS // len(found)))
    return [digest(reader.read(folder), points, clients, bins) for folder in found]
