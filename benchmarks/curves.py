"""Whether networks learn alike with either kernel: runs that differ in the kernel alone, seed by seed.

Both add the same products in another order, so curves part in the last bits, and then further. How far is ordinary is
seen from torch alone: its two memory formats also differ in the order of their sums, and in nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import afbs
from afbs.native.library import best
from benchmarks.overhead import QUICKSTART

SEEDS = (1, 2, 3)
KINDS: dict[str, dict[str, Any]] = {
    "native": {"model.kernel": "native"},
    "channels last": {"model.kernel": "torch"},
    "contiguous": {"model.kernel": "torch", "model.memory_format": "contiguous"},
}
PAIRS = {"native − torch": ("native", "channels last"), "torch's formats": ("contiguous", "channels last")}


def measure(days: float) -> dict[str, Any]:
    """The accuracy of FedBuff on 5,000 digits at every evaluation, for each seed and kind."""
    if best() is None:
        return {"curves": None}
    with tempfile.TemporaryDirectory() as folder:
        curves = {
            kind: {
                str(seed): afbs.run(
                    QUICKSTART,
                    runs=folder,
                    progress=False,
                    **{"algorithm.name": "fedbuff", "run.seed": seed, "run.virtual_days": days, **settings},
                )
                .history["accuracy"]
                .to_list()
                for seed in SEEDS
            }
            for kind, settings in KINDS.items()
        }
    return {"virtual_days": days, "curves": curves}


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if found["curves"] is None:
        yield "curves of accuracy", "native kernels are not built"
        return
    curves = {kind: np.array([by_seed[str(seed)] for seed in SEEDS]) for kind, by_seed in found["curves"].items()}
    for name, (one, other) in PAIRS.items():
        apart = 100 * (curves[one] - curves[other])
        each = ", ".join(f"{mean:+.3f}" for mean in apart.mean(axis=1))
        spread = f"standard deviation {apart.std():.3f}, most {abs(apart).max():.2f}"
        yield f"accuracy, {name}, points", f"mean {apart.mean():+.3f} (seeds {each}), {spread}"
    yield "accuracy, between seeds, points", f"standard deviation {100 * curves['native'].std(axis=0).mean():.2f}"
    last = "; ".join(f"{kind} " + ", ".join(f"{curve[-1]:.4f}" for curve in curves[kind]) for kind in curves)
    yield "accuracy at the end, seed by seed", last
