"""Settings in words: every one that ships has some, and types, ranges and defaults are those of the class."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from annotated_types import Ge, Gt, Le, Lt

from afbs import manual, registry
from afbs.config import TABLES, Config
from afbs.manual import Setting
from afbs.sweeps.searching import SearchSettings
from afbs.sweeps.settings import SweepSettings

KINDS = tuple(kind for kind in TABLES if kind not in ("run", "training", "evaluation", "record"))
PARTS = {f"{kind} {name}": registry.find(kind, name) for kind in KINDS for name in registry.names(kind)}
TABLES_OF_THEIR_OWN = {
    name: part
    for name, part in get_type_hints(Config).items()
    if dataclasses.is_dataclass(part) and name not in (*KINDS, "model")
}


@dataclass(frozen=True)
class Parent:
    first: Annotated[int, Ge(1), Le(2**63 - 1)] = 2
    """Of the parent."""


@dataclass(frozen=True)
class Child(Parent):
    """Words about the class."""

    second: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Two
    lines."""
    third: Literal["a", "b"] = "a"
    fourth: bool = True
    """The fourth."""
    fifth: float = inf
    sixth: Mapping[str, Any] = field(default_factory=dict)
    seventh: Sequence[str] = ()
    eighth: object = None
    hidden: int = field(default=1, init=False)


class Network:
    """Words.

    `width`: How wide
    it is.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: Annotated[int, Ge(1)] = 3):
        pass


def test_a_setting_is_told_by_its_field() -> None:
    assert manual.settings(Child) == [
        Setting("first", "whole number ≥ 1, ≤ 2^63 - 1", "2", "Of the parent."),
        Setting("second", "number > 0, < 1", "0.5", "Two\nlines."),
        Setting("third", '"a" | "b"', '"a"', ""),
        Setting("fourth", "true or false", "true", "The fourth."),
        Setting("fifth", "number", "inf", ""),
        Setting("sixth", "table", "{}", ""),
        Setting("seventh", "list", "()", ""),
        Setting("eighth", "in Python", "none", ""),
    ]


def test_what_is_given_by_name_only_comes_last_as_in_the_constructor() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Shared:
        rate: float = 1.0

    @dataclass(frozen=True)
    class Own(Shared):
        size: int = 10

    assert [setting.name for setting in manual.settings(Own)] == ["size", "rate"]


def test_a_network_tells_its_own_in_its_docstring() -> None:
    assert manual.settings(Network) == [Setting("width", "whole number ≥ 1", "3", "How wide it is.")]


def test_every_table_of_a_configuration_is_known_here() -> None:
    assert {*TABLES_OF_THEIR_OWN, *KINDS} == set(TABLES)


@pytest.mark.parametrize("part", [*PARTS.values(), *TABLES_OF_THEIR_OWN.values(), SweepSettings, SearchSettings])
def test_every_setting_that_ships_has_words(part: Any) -> None:
    for setting in manual.settings(part):
        assert setting.about.endswith("."), (part, setting.name)
        assert setting.takes != "in Python", (part, setting.name)
    if dataclasses.is_dataclass(part) and callable(part):
        assert len(manual.settings(part)) == len(inspect.signature(part).parameters)
