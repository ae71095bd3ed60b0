"""How fast clients are trained on Ray on one machine, against `processes`, in turn, in one run.

Only a quiet machine can tell: Ray's workers run in sessions and at a priority of their own, so under load the kernel
shares cores out differently between the two, and the ratio of wall times is about that.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from afbs import experiment
from afbs.config import load
from benchmarks import workload
from benchmarks.throughput import ratio

WORKERS = len(os.sched_getaffinity(0))
EXECUTORS: dict[str, dict[str, Any]] = {name: {"name": name, "workers": WORKERS} for name in ("processes", "ray")}


def measure(rounds: int, days: float) -> dict[str, Any]:
    """Updates a second of each, one figure a round, and whether they ended in the same model."""
    data = workload.arrays()
    rates: defaultdict[str, list[float]] = defaultdict(list)
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, executor in EXECUTORS.items():
                config = load(workload.config("fedbuff", data, days), {"executor": executor})
                result = experiment.run(config, runs=Path(folder), progress=False).record.result
                assert result is not None
                wall = result["wall"]["total"]
                assert wall is not None
                rates[name].append(result["jobs"]["trained"] / wall)
                digests.add(result["sha256"])
    return {"updates_per_second": dict(rates), "same": len(digests) == 1}


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    rates = found["updates_per_second"]
    yield "fedbuff, updates/s: ray ÷ processes", ratio(rates["ray"], rates["processes"])
    yield "the same final model", "yes" if found["same"] else "no"
