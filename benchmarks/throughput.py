"""How fast clients are trained: the engine against a plain loop over the same clients, in turn, in one run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afbs import experiment, registry
from afbs.population import populate
from afbs.types import Decided, Dispatched
from benchmarks import workload

PLAIN_ONE, PLAIN_MANY = "plain loop, 1 process", "plain loop, N processes"


def measure(rounds: int, days: float) -> dict[str, Any]:
    """Updates a second of each, one figure a round; and what the engine did with its time."""
    data = workload.arrays()
    reference = workload.config("fedbuff", data, days)
    population = populate(reference)
    plan = list(experiment.schedule(reference, population.clients))
    jobs = [update.client for event in plan if isinstance(event, Decided) for update in event.step.used]
    workers = reference.executor.number
    rates: defaultdict[str, list[float]] = defaultdict(list)
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    walls: defaultdict[str, list[float]] = defaultdict(list)
    details: dict[str, Any] = {}
    algorithms = ["fedbuff", "afbs", *(set(registry.names("algorithm")) - {"fedbuff", "afbs"})]
    with tempfile.TemporaryDirectory() as folder:
        files = _files(Path(folder), data)
        for turn in range(rounds):
            rates[PLAIN_ONE].append(_plain(files, population, jobs[: len(jobs) // workers], 1))
            rates[PLAIN_MANY].append(_plain(files, population, jobs, workers))
            for name in algorithms if turn == 0 else algorithms[:2]:
                result = experiment.run(workload.config(name, data, days), runs=Path(folder) / "runs").record.result
                assert result is not None
                wall = result["wall"]["total"]
                assert wall is not None
                rates[name].append(result["jobs"]["trained"] / wall)
                arrivals[name].append(result["updates"]["arrived"] / wall)
                walls[name].append(wall)
                details[name] = {**result["wall"], **result["jobs"], "evaluations": result["evaluations"]}
    assert any(isinstance(event, Dispatched) for event in plan)
    return {
        "workers": workers,
        "virtual_days": days,
        "updates_per_second": rates,
        "arrivals_per_second": arrivals,
        "wall_seconds": walls,
        "details": details,
    }


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The ratios, with the spread over the rounds."""
    rates, walls = found["updates_per_second"], found["wall_seconds"]
    yield "plain loop, N processes ÷ 1 process", ratio(rates[PLAIN_MANY], rates[PLAIN_ONE])
    for name in rates:
        if name not in (PLAIN_ONE, PLAIN_MANY):
            yield f"{name}: trained updates/s ÷ plain loop, N processes", ratio(rates[name], rates[PLAIN_MANY])
    yield "afbs ÷ fedbuff: wall time for the same virtual time", ratio(walls["afbs"], walls["fedbuff"])
    for name, details in found["details"].items():
        yield f"{name}: workers idle", f"{details['idle_share']:.1%}"
        work = {key: details[key] for key in ("train", "evaluate", "plan", "apply", "record", "wait")}
        yield f"{name}: seconds", ", ".join(f"{key} {seconds:.1f}" for key, seconds in work.items())


def ratio(over: list[float], under: list[float]) -> str:
    """Median of the ratios of rounds that were measured one after the other, and their range."""
    each = [a / b for a, b in zip(over, under, strict=False)]
    return f"{np.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


def _files(folder: Path, data: Any) -> tuple[Path, Path]:
    samples, labels = folder / "samples.npy", folder / "labels.npy"
    np.save(samples, data.train_x)
    np.save(labels, data.train_y)
    return samples, labels


def _plain(files: tuple[Path, Path], population: Any, jobs: list[int], processes: int) -> float:
    """Updates a second, of all processes together. Each takes every N-th job."""
    started = []
    for process in range(processes):
        share = files[0].with_name(f"jobs{process}.npz")
        np.savez(share, *(population.split.indices[client] for client in jobs[process::processes]))
        command = [sys.executable, "-m", "benchmarks.plain", *map(str, files), str(share)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    found = [json.loads(process.communicate()[0]) for process in started]
    return float(sum(one["jobs"] / one["seconds"] for one in found))
