"""afbs: semi-asynchronous federated learning that decides first and trains after."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from afbs.version import VERSION

if TYPE_CHECKING:
    from afbs.config import load as configure
    from afbs.core.averaging import Averaging
    from afbs.core.buffer import Buffer
    from afbs.core.selection import gradient_select
    from afbs.experiment import Interrupted, resume, run, verify
    from afbs.experiment.exporting import export_model, model
    from afbs.experiment.result import Result, load
    from afbs.experiment.serving import serve
    from afbs.experiment.tracing import export_trace
    from afbs.interfaces import Algorithm, Availability, Latency, LocalRule, Pool, Task
    from afbs.metrics import Metric
    from afbs.population import populate
    from afbs.seeds import Key
    from afbs.sweeps import Outcome, Sweep, compare, sweep
    from afbs.types import (
        Ask,
        ClientId,
        ClientInfo,
        Facts,
        Matrix,
        Memory,
        Order,
        RunError,
        Step,
        Update,
        UserError,
        Vector,
    )

__all__ = [
    "Algorithm",
    "Ask",
    "Availability",
    "Averaging",
    "Buffer",
    "ClientId",
    "ClientInfo",
    "Facts",
    "Interrupted",
    "Key",
    "Latency",
    "LocalRule",
    "Matrix",
    "Memory",
    "Metric",
    "Order",
    "Outcome",
    "Pool",
    "Result",
    "RunError",
    "Step",
    "Sweep",
    "Task",
    "Update",
    "UserError",
    "Vector",
    "compare",
    "configure",
    "export_model",
    "export_trace",
    "gradient_select",
    "load",
    "model",
    "populate",
    "resume",
    "run",
    "serve",
    "sweep",
    "verify",
]
__version__ = VERSION

_HOMES = {
    **dict.fromkeys(("Algorithm", "Availability", "Latency", "LocalRule", "Pool", "Task"), "afbs.interfaces"),
    **dict.fromkeys(("Ask", "ClientId", "ClientInfo", "Facts", "Matrix", "Memory"), "afbs.types"),
    **dict.fromkeys(("Order", "RunError", "Step", "Update", "UserError", "Vector"), "afbs.types"),
    **dict.fromkeys(("Interrupted", "resume", "run", "verify"), "afbs.experiment"),
    **dict.fromkeys(("Outcome", "Sweep", "compare", "sweep"), "afbs.sweeps"),
    **dict.fromkeys(("export_model", "model"), "afbs.experiment.exporting"),
    "Averaging": "afbs.core.averaging",
    "Buffer": "afbs.core.buffer",
    "Key": "afbs.seeds",
    "Metric": "afbs.metrics",
    "Result": "afbs.experiment.result",
    "export_trace": "afbs.experiment.tracing",
    "gradient_select": "afbs.core.selection",
    "load": "afbs.experiment.result",
    "populate": "afbs.population",
    "serve": "afbs.experiment.serving",
}


def __getattr__(name: str) -> Any:
    """What the package offers is imported when it is first asked for, so that importing it costs nothing."""
    if name == "configure":
        return import_module("afbs.config").load
    if name not in _HOMES:
        raise AttributeError(f"module 'afbs' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
