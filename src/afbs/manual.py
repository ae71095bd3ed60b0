"""The settings of a part, in words: read from its class, so that no table of them can be wrong.

A setting of a dataclass is described by the string below its field; one of a network, whose constructor takes it, by a
paragraph of the class's docstring that begins with its name.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

__all__ = ["GIVEN", "Setting", "settings"]

GIVEN = ("shape", "classes", "tokens")
"""What a network is told about the data, and nobody sets."""
_NEEDED = "needed"
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class Setting(NamedTuple):
    """`takes` says which values it may have, `default` is as TOML writes it, or "needed"."""

    name: str
    takes: str
    default: str
    about: str


def settings(part: Any) -> list[Setting]:
    """Every setting of a part's class, in the order in which its constructor takes them."""
    if dataclasses.is_dataclass(part) and isinstance(part, type):
        types, told = get_type_hints(part, include_extras=True), _told(part)
        return [
            Setting(each.name, _takes(types[each.name]), _default(each), told.get(each.name, ""))
            for each in sorted(dataclasses.fields(part), key=lambda field: field.kw_only is True)
            if each.init
        ]
    types, told = get_type_hints(part.__init__, include_extras=True), _paragraphs(part)
    return [
        Setting(each.name, _takes(types[each.name]), _toml(each.default), told.get(each.name, ""))
        for each in inspect.signature(part).parameters.values()
        if each.name not in GIVEN
    ]


def _told(part: type) -> dict[str, str]:
    """The string below each field, also of the classes that it inherits from."""
    found: dict[str, str] = {}
    for cls in reversed([cls for cls in part.__mro__ if dataclasses.is_dataclass(cls)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match below:
                    case ast.Expr(ast.Constant(str(text))):
                        found[field.target.id] = inspect.cleandoc(text)
    return found


def _paragraphs(part: Any) -> dict[str, str]:
    """What the docstring says after `name`: at the beginning of a paragraph."""
    paragraphs = (inspect.getdoc(part) or "").split("\n\n")
    matches = (re.fullmatch(r"`(\w+)`: (.*)", paragraph.strip(), re.S) for paragraph in paragraphs)
    return {match[1]: " ".join(match[2].split()) for match in matches if match}


def _takes(wanted: Any) -> str:
    """`whole number ≥ 1`, or the words there are to choose from."""
    if hasattr(wanted, "__metadata__"):
        bounds = ", ".join(text for bound in wanted.__metadata__ for text in _bounds(bound))
        return f"{_takes(wanted.__origin__)} {bounds}".strip()
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_takes(each) for each in get_args(wanted) if each is not NoneType)
    if get_origin(wanted) is Literal:
        return " | ".join(_toml(choice) for choice in get_args(wanted))
    origin = get_origin(wanted) or wanted
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str:
        return "list"
    return _WORDS.get(origin, "in Python")


def _bounds(bound: Any) -> list[str]:
    return [f"{sign} {_toml(getattr(bound, key))}" for key, sign in _SIGNS.items() if hasattr(bound, key)]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return _toml(field.default_factory())
    return _NEEDED if field.default is dataclasses.MISSING else _toml(field.default)


def _toml(value: Any) -> str:
    """As a configuration would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int) and value >= 2**31:
        return f"2^{value.bit_length()} - 1" if value & (value + 1) == 0 else f"2^{round(math.log2(value))}"
    return "none" if value is None else "{}" if value == {} else str(value)
