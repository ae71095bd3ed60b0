"""Batteries for parts of one's own: the same that the parts of this package pass.

    from afbs.testing import check_label_mechanism

    def test_my_mechanism() -> None:
        check_label_mechanism(MyMechanism(number=3))

Each raises an `AssertionError` whose text says what is wrong. They need no test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afbs.testing.labels import check_label_mechanism

__all__ = ["check_label_mechanism"]

_HOMES = {"check_label_mechanism": "afbs.testing.labels"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'afbs.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
