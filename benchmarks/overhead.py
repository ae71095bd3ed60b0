"""Which share of a run is not training or predicting.

AFBS in one process and by processor time, so that other work on the machine does not count. Training and predicting is
making numbers of a client's bytes, gradients, steps and scores. The rest is the engine's: planning, shuffling, copying,
aggregating, counting right answers, recording, checkpointing, and these timers. A short run before it imports the
libraries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import afbs
from benchmarks import workload

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart.toml"


class Timed:
    """Adds up the processor time of a function's calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began = process_time()
            try:
                return function(*given, **named)
            finally:
                self.seconds += process_time() - began

        return timed


def measure(days: float, quickstart_days: float) -> dict[str, Any]:
    data = workload.arrays()
    found = {}
    for kernel in _kernels():
        inline: dict[str, Any] = {"executor": {"name": "inline"}, "model.kernel": kernel}
        for name, source, length in (
            ("CIFAR-10-shaped", workload.config("afbs", data), days),
            ("5,000 digits", QUICKSTART, quickstart_days),
        ):
            _run(source, {**inline, "run.virtual_days": 0.01})
            found[f"{name}, {kernel}"] = _run(source, {**inline, "run.virtual_days": length})
    return found


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, parts in found.items():
        share = 1 - sum(seconds for part, seconds in parts.items() if part != "total") / parts["total"]
        spent = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
        yield f"{name}: the engine's share of processor time", f"{share:.1%} ({spent} s)"


def _kernels() -> list[str]:
    from afbs.native.library import best

    return ["torch", "native"] if best() else ["torch"]


def _run(source: Any, settings: dict[str, Any]) -> dict[str, float]:
    from afbs.clients import flatten, gradient, lenet5
    from afbs.tasks.classification import Classification

    samples, gradients, steps, predictions = Timed(), Timed(), Timed(), Timed()
    places: list[tuple[Any, str, Timed]] = [
        (gradient.Torch, "begin", samples),
        (gradient.Torch, "of", gradients),
        (lenet5.NativeLenet5, "begin", samples),
        (lenet5.NativeLenet5, "of", gradients),
        (Classification, "tally", predictions),
        (flatten.FlatModel, "descend", steps),
    ]
    with _timed(places), tempfile.TemporaryDirectory() as folder:
        began = process_time()
        afbs.run(source, runs=folder, progress=False, **settings)
        total = process_time() - began
    parts = {"samples": samples, "gradients": gradients, "steps": steps, "predictions": predictions}
    return {**{name: timed.seconds for name, timed in parts.items()}, "total": total}


@contextmanager
def _timed(places: list[tuple[Any, str, Timed]]) -> Iterator[None]:
    originals = [getattr(owner, name) for owner, name, _ in places]
    try:
        for (owner, name, timed), original in zip(places, originals, strict=True):
            setattr(owner, name, timed(original))
        yield
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)
