"""How fast clients are trained on Ray on one machine, against `processes`, in turn, in one run.

Only a quiet machine can tell: Ray's workers run in sessions and at a priority of their own, so under load the kernel
shares cores out differently between the two, and the ratio of wall times is about that. What a job costs in processor
time, that of Ray's own processes included, and how long workers are idle can be told under load as well.
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
from afbs.record.recorder import Progress
from benchmarks import workload
from benchmarks.throughput import ratio

WORKERS = len(os.sched_getaffinity(0))
EXECUTORS: dict[str, dict[str, Any]] = {name: {"name": name, "workers": WORKERS} for name in ("processes", "ray")}


def measure(rounds: int, days: float) -> dict[str, Any]:
    """Of each, one figure a round: updates a second, processor seconds an update, and the share that workers are idle;
    and whether they ended in the same model."""
    data = workload.arrays()
    rates: defaultdict[str, list[float]] = defaultdict(list)
    costs: defaultdict[str, list[float]] = defaultdict(list)
    idle: defaultdict[str, list[float]] = defaultdict(list)
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, executor in EXECUTORS.items():
                config = load(workload.config("fedbuff", data, days), {"executor": executor})
                meter = Meter()
                result = experiment.run(config, runs=Path(folder), progress=False, on_progress=meter).record.result
                assert result is not None
                wall = result["wall"]["total"]
                assert wall is not None
                rates[name].append(result["jobs"]["trained"] / wall)
                costs[name].append(meter.seconds_a_version() * result["versions"] / result["jobs"]["trained"])
                idle[name].append(result["wall"]["idle_share"] or 0.0)
                digests.add(result["sha256"])
    figures = {"updates_per_second": dict(rates), "processor_seconds_an_update": dict(costs), "idle_share": dict(idle)}
    return {**figures, "same": len(digests) == 1}


class Meter:
    """Processor seconds of this process and all below it, from its first look on: starting up is left out."""

    def __init__(self) -> None:
        self._looks: list[tuple[int, float]] = []

    def __call__(self, state: Progress) -> None:
        if not self._looks or state.version >= self._looks[-1][0] + 10:
            self._looks.append((state.version, sum(map(_spent, _family()))))

    def seconds_a_version(self) -> float:
        (first, before), (last, after) = self._looks[0], self._looks[-1]
        return (after - before) / (last - first)


def _family() -> Iterator[int]:
    """This process and all that it, or what it started, has started."""
    below: defaultdict[int, list[int]] = defaultdict(list)
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and (fields := _fields(int(place.name))):
            below[int(fields[1])].append(int(place.name))
    found = [os.getpid()]
    for process in found:
        found += below[process]
    yield from found


def _spent(process: int) -> float:
    fields = _fields(process)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _fields(process: int) -> list[str]:
    """Of `/proc/<process>/stat`, from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    rates, costs, idle = (found[key] for key in ("updates_per_second", "processor_seconds_an_update", "idle_share"))
    yield "fedbuff, updates/s: ray ÷ processes", ratio(rates["ray"], rates["processes"])
    yield "processor time an update: processes ÷ ray", ratio(costs["processes"], costs["ray"])
    for name, shares in idle.items():
        yield f"{name}: workers idle", ", ".join(f"{share:.1%}" for share in shares)
    yield "the same final model", "yes" if found["same"] else "no"
