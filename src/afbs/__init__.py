"""afbs: semi-asynchronous federated learning that decides first and trains after."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afbs.core.selection import gradient_select
    from afbs.experiment import compare, resume, run
    from afbs.record.result import Result, load
    from afbs.types import RunError, UserError

__all__ = ["Result", "RunError", "UserError", "compare", "gradient_select", "load", "resume", "run"]
__version__ = "0.1.0"

_HOMES = {
    "Result": "afbs.record.result",
    "RunError": "afbs.types",
    "UserError": "afbs.types",
    "compare": "afbs.experiment",
    "gradient_select": "afbs.core.selection",
    "load": "afbs.record.result",
    "resume": "afbs.experiment",
    "run": "afbs.experiment",
}


def __getattr__(name: str) -> Any:
    """What the package offers is imported when it is first asked for, so that importing it costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'afbs' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
