"""afbs: semi-asynchronous federated learning that decides first and trains after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from afbs.core.selection import gradient_select
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.experiment import compare, resume, run
    from afbs.record.result import Result

__all__ = ["Result", "UserError", "compare", "gradient_select", "load", "resume", "run"]
__version__ = "0.1.0"


def load(folder: str | Path) -> Result:
    """A run from its folder."""
    from afbs.record.result import Result

    return Result.open(folder)


def __getattr__(name: str) -> Any:
    """What is expensive to import is imported when it is first asked for."""
    if name in ("compare", "resume", "run"):
        from afbs import experiment

        return getattr(experiment, name)
    if name == "Result":
        from afbs.record.result import Result

        return Result
    raise AttributeError(f"module 'afbs' has no attribute {name!r}")
