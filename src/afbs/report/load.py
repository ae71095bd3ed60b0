"""Run folders as digests, one after the other, so that only one run at a time is in memory whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from afbs.record import reader
from afbs.report.arms import Arm, arms_of, without_copies
from afbs.report.digest import Digest, digest
from afbs.report.words import listing
from afbs.types import UserError

_POINTS = 60_000
_CLIENTS = 40_000
_BINS = 1_500
"""What the page may hold of all runs together: with plotly's own 4.8 MB it then stays below 10 MB."""


class Compared(NamedTuple):
    """What is compared, and a sentence about each run that was left out."""

    arms: list[Arm]
    left_out: tuple[str, ...]


def compared(folders: Iterable[str | Path]) -> Compared:
    """The runs among and below `folders`, as arms.

    A run that was named and cannot be read is a UserError; one that was only found is left out, unless there is no
    other. A copy of a run is left out too: it is no further sample.
    """
    given = [Path(folder) for folder in folders]
    found = reader.find(given)
    read: list[Digest] = []
    problems: list[str] = []
    for folder in found:
        try:
            read.append(_digest(folder, len(found)))
        except UserError as error:
            if folder in given or len(found) == 1:
                raise
            problems.append(f"Left out: {error}")
    if not read:
        raise UserError(problems[0].removeprefix("Left out: "))
    metric = read[0].metric
    others = [one for one in read if one.metric.name != metric.name]
    read = [one for one in read if one.metric.name == metric.name]
    problems += [
        f"Left out: {one.folder} is about {one.metric.called}, and the others are about {metric.called}."
        for one in others
    ]
    kept, copies = without_copies(read)
    if copies:
        names = listing([copy.folder for copy in copies[:10]] + ([f"{len(copies) - 10} more"] if copies[10:] else []))
        problems.append(f"Left out as the copy of another run, with the same settings, seed and final model: {names}.")
    return Compared(arms_of(kept), tuple(problems))


def _digest(folder: Path, number: int) -> Digest:
    """The more runs there are, the fewer points each may have: the page stays small."""
    points = max(40, min(500, _POINTS // number))
    clients = max(60, min(5000, _CLIENTS // number))
    bins = max(12, min(50, _BINS // number))
    return digest(reader.read(folder), points, clients, bins)
