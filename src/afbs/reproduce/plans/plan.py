"""A plan: which runs one of the paper's tables or figures needs, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from afbs.reproduce.choice import Choice
from afbs.reproduce.found import Found
from afbs.reproduce.page import Page, Table
from afbs.reproduce.spec import Spec

Finds: TypeAlias = Mapping[str, Found]
"""What is known, by the name of the run."""


@dataclass(frozen=True)
class Plan:
    """`page` is given everything that is known, which may be less than `specs` asks for."""

    name: str
    title: str
    specs: Callable[[Choice], Sequence[Spec]]
    page: Callable[[Choice, Finds], Page]


def known(specs: Sequence[Spec], finds: Finds) -> list[Found]:
    return [finds[spec.name] for spec in specs if spec.name in finds]


def made(
    name: str,
    title: str,
    tables: Sequence[Table],
    wanted: Sequence[Spec],
    finds: Finds,
    notes: Sequence[str] = (),
    figures: Mapping[str, bytes] | None = None,
) -> Page:
    """A page that says which of the wanted runs it was made of, and how many are missing."""
    names = list(dict.fromkeys(spec.name for spec in wanted))
    there = [name for name in names if name in finds]
    return Page(name, title, tables, notes, figures or {}, there, len(names) - len(there))
