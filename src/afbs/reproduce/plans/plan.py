"""A plan: which runs one of the paper's tables or figures needs, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from afbs.reproduce.choice import Choice
from afbs.reproduce.found import Found
from afbs.reproduce.page import Page
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
