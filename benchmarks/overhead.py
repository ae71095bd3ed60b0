"""`python -m benchmarks.overhead`: which share of a run is not forward, backward or optimiser step.

AFBS on the 5,000 MNIST digits with LeNet-5, in one process and by processor time, so that other work on the machine
does not count. Everything else does: planning, reading samples, shuffling, scaling, copying, aggregating, the rest of
evaluating, recording, checkpointing, and these timers. A short run before it imports the libraries.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import afbs

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


def measure(virtual_days: float) -> dict[str, float]:
    from afbs.clients import flatten, trainer
    from afbs.models.lenet5 import LeNet5

    settings: dict[str, Any] = {"executor": {"name": "inline"}, "run.virtual_days": virtual_days}
    forward, backward, optimiser = Timed(), Timed(), Timed()
    places: list[tuple[Any, str, Timed]] = [
        (LeNet5, "forward", forward),
        (trainer, "cross_entropy", forward),
        (flatten.FlatModel, "backward", backward),
        (flatten.FlatModel, "descend", optimiser),
    ]
    originals = [getattr(owner, name) for owner, name, _ in places]
    try:
        for (owner, name, timed), original in zip(places, originals, strict=True):
            setattr(owner, name, timed(original))
        with tempfile.TemporaryDirectory() as folder:
            began = process_time()
            afbs.run(QUICKSTART, runs=folder, **settings)
            total = process_time() - began
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)
    parts = {"forward": forward.seconds, "backward": backward.seconds, "optimiser": optimiser.seconds}
    return {**parts, "total": total, "overhead": 1 - sum(parts.values()) / total}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--virtual-days", type=float, default=0.5)
    virtual_days = parser.parse_args().virtual_days
    measure(0.01)
    found = measure(virtual_days)
    for name in ("forward", "backward", "optimiser", "total"):
        print(f"{name:10} {found[name]:7.2f} s of processor time")
    print(f"{'overhead':10} {found['overhead']:7.1%}")


if __name__ == "__main__":
    main()
