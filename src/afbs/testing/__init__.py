"""Batteries for parts of one's own: the same that the parts of this package pass.

    from afbs.testing import check_algorithm

    def test_my_algorithm() -> None:
        check_algorithm(MyAlgorithm(buffer_size=3))

Each raises an `AssertionError` whose text says what is wrong. They need no test framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afbs.testing.algorithms import check_algorithm
    from afbs.testing.executors import check_executor
    from afbs.testing.labels import check_label_mechanism
    from afbs.testing.transports import check_transport

__all__ = ["check_algorithm", "check_executor", "check_label_mechanism", "check_transport"]

_HOMES = {
    "check_algorithm": "afbs.testing.algorithms",
    "check_executor": "afbs.testing.executors",
    "check_label_mechanism": "afbs.testing.labels",
    "check_transport": "afbs.testing.transports",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'afbs.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
