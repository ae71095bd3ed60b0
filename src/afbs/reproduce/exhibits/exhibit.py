"""An exhibit: which runs one of the paper's tables or figures needs, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afbs.reproduce.choice import Choice
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.spec import Spec


@dataclass(frozen=True)
class Gathered:
    """What is known: runs by their names, and what the exhibit has `measured` itself; empty where it has not yet."""

    runs: Mapping[str, Evidence] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)


def _none(*_: Any) -> Sequence[Spec]:
    return ()


@dataclass(frozen=True)
class Exhibit:
    """`page` is given everything that is known, which may be less than `specs` asks for.

    `beside` are runs that are shown where they are known, and never asked for.
    `then` are further runs that depend on what is known, asked again until it names no new ones. `measure` finds
    something out without any run, as JSON can hold it; `heeds` are the options that change that.
    """

    name: str
    title: str
    specs: Callable[[Choice], Sequence[Spec]]
    page: Callable[[Choice, Gathered], Page]
    then: Callable[[Choice, Gathered], Sequence[Spec]] = _none
    beside: Callable[[Choice], Sequence[Spec]] = _none
    measure: Callable[[Choice], Mapping[str, Any]] | None = None
    heeds: tuple[str, ...] = ()


def known(specs: Sequence[Spec], finds: Gathered) -> list[Evidence]:
    return [finds.runs[spec.name] for spec in specs if spec.name in finds.runs]


def made(
    name: str,
    title: str,
    tables: Sequence[Sheet],
    wanted: Sequence[Spec],
    finds: Gathered,
    notes: Sequence[str] = (),
    figures: Mapping[str, bytes] | None = None,
) -> Page:
    """A page that says which of the wanted runs it was made of, and how many are missing."""
    names = list(dict.fromkeys(spec.name for spec in wanted))
    there = [name for name in names if name in finds.runs]
    return Page(name, title, tables, notes, figures or {}, there, len(names) - len(there))
