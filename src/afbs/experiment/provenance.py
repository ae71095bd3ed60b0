"""Where a run comes from and what came of it: `meta.json`, `result.json`, and the identity that ties files to a run."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from afbs.config import Config
from afbs.data import fingerprint
from afbs.engine.server import Server
from afbs.experiment.arithmetic import products
from afbs.experiment.assembly import is_late
from afbs.experiment.result import Result
from afbs.interfaces import Algorithm
from afbs.native.library import best
from afbs.population import Population
from afbs.record.final import sha256
from afbs.record.schema import SCHEMA
from afbs.record.writer import Writer
from afbs.seeds import Key
from afbs.types import Dataset, UserError, Vector
from afbs.version import VERSION

_FREE = {
    "run": ("device", "checkpoint_seconds"),
    "executor": None,
    "record": None,
    "name": None,
}
"""Settings that may change before a run is resumed: they decide nothing. None: the whole table."""


def meta(config: Config, population: Population, parameters: int) -> dict[str, Any]:
    clients = population.clients
    lasting = None
    if config.latency.per == "client" and not config.transport.live:
        key = Key.root(config.run.seed, "latency")
        lasting = [config.latency.duration(client, 0.0, key.child(client.id)) for client in clients]
    late = [] if config.transport.live else [is_late(config, client) for client in clients]
    found = {
        "schema": SCHEMA,
        "name": config.name,
        "seed": config.run.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"afbs": VERSION, **{name: _version(name) for name in ("torch", "numpy", "scikit-learn")}},
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "workers": config.executor.number,
            "native": best(),
            "blas": products(),
        },
        "git": _commit(),
        "settings": digests(config),
        "kernel": config.model.kernel,
        "data": fingerprint(population.dataset),
        "parameters": parameters,
        "horizon": config.run.horizon,
        "classes": population.dataset.classes,
        "outputs": config.task.sizes(population.dataset)[1],
        "input": _input(config, population.dataset),
        "metrics": [asdict(metric) for metric in config.task.metrics],
        "algorithm": config.tables["algorithm"]["name"],
        "title": type(config.algorithm).__name__,
        "adds": config.algorithm.adds,
        "modules": list(config.modules),
        "class_names": list(population.dataset.names) or None,
        "clients": {
            "id": [client.id for client in clients],
            "examples": [client.examples for client in clients],
            "cluster": [client.cluster for client in clients] if population.grouping else None,
            "latency": lasting,
            "owner": population.owner_names(),
            **({"late": late} if any(late) else {}),
        },
        "partition": dict(population.split.notes),
        "clusters": dict(population.grouping.notes) if population.grouping else None,
    }
    if config.record.labels:
        shares = [counts / counts.sum() for counts in population.label_counts().values()]
        found["true_clusters"] = population.split.clusters
        found["labels"] = [[round(float(share), 4) for share in row] for row in shares]
    return found


def _input(config: Config, dataset: Dataset) -> dict[str, Any]:
    """What one sample is, and how the network is given it."""
    return {
        "shape": list(config.task.sizes(dataset)[0]),
        "tokens": dataset.tokens,
        "unit": 255 if dataset.train_x.dtype == np.uint8 else 1,
        "shift": list(dataset.shift),
        "scale": list(dataset.scale),
    }


def digests(config: Config) -> dict[str, str]:
    """A digest of each table that decides a run's result: what may change before a resume is left out."""
    found = {}
    for table, settings in config.tables.items():
        free = _FREE.get(table, ())
        if free is not None:
            kept = {key: value for key, value in settings.items() if key not in free}
            found[table] = _digest(kept)
    return found


def identity(config: Config, data: str) -> str:
    """What a checkpoint must say to belong to this run: its settings, its seed and its data."""
    return _digest([digests(config), data])


def agreement(config: Config) -> str:
    """A digest of what a server and its real clients must have in common."""
    tables = digests(config)
    common = {name: tables[name] for name in ("model", "training", "task", "algorithm")}
    return _digest([common, config.evaluation.held_out, config.run.seed, VERSION])


def changed(config: Config, before: Mapping[str, Any]) -> list[str]:
    """The tables that decide a run's result and are not what they were when it began."""
    now = digests(config)
    return [table for table in now if table in before and before[table] != now[table]]


def refuse_changes(config: Config, folder: Path, before: Mapping[str, Any]) -> None:
    """A run that was taken up with other settings would belong to neither the old nor the new ones."""
    tables = changed(config, before)
    if tables:
        raise UserError(
            f"`[{tables[0]}]` was changed after the run began. Put it back, or begin a new run: "
            f"afbs run {shlex.quote(str(folder / 'config.toml'))}"
        )


def server_memory(algorithm: Algorithm[Any], parameters: int, clients: int, stateful: bool) -> int:
    """Bytes that are kept between steps, the clients' states included. Refuses what would not fit."""
    needed = algorithm.memory_bytes(parameters, clients) + 4 * parameters * clients * stateful
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise UserError(
            f"`algorithm`: its server keeps {needed / 1e9:.1f} GB of vectors, and this machine has "
            f"{available / 1e9:.1f} GB. Fewer clients or a smaller model would do."
        )
    return needed


def conclude(
    config: Config,
    writer: Writer,
    server: Server,
    memory: int,
    wall: float,
    traffic: Mapping[str, int] | None = None,
) -> None:
    """The final model and the summary: `result.json` comes last, so a folder that has it is complete.

    `traffic` is what real clients moved; of simulated ones it is worked out.
    """
    writer.file("model.safetensors", save({"params": _owned(server.params)}))
    counts = server.counts
    record = Result.open(writer.folder)
    size = 4 * len(server.params)
    target = config.evaluation.target
    stateful = config.algorithm.local.stateful or config.training.remember
    everybody_trains = config.transport.live or stateful or config.algorithm.looks
    summary = {
        "metric": record.metric.name,
        "best": _known(record.best),
        "final": _known(record.final),
        "target": target,
        "time_to_target": None if target is None else record.time_to(target),
        "versions": server.version,
        "virtual_seconds": server.time,
        "updates": {
            name: getattr(counts, name)
            for name in ("arrived", "used", "dropped", "rejected", "missing", "lost", "left")
        },
        "jobs": {
            "trained": counts.trained,
            "skipped": 0 if everybody_trains else counts.dropped,
            "samples": counts.samples,
            "steps": counts.steps,
        },
        "evaluations": counts.evaluations,
        "vector_memory_bytes": memory,
        "upload_bytes": size * (counts.used + counts.rejected) if traffic is None else traffic["uploaded"],
        "skipped_upload_bytes": size * counts.dropped if traffic is None else traffic["spared"],
        **({} if traffic is None else {"traffic": dict(traffic)}),
        "wall": {
            "total": wall,
            **{
                name: round(getattr(counts, name), 4)
                for name in ("train", "evaluate", "plan", "apply", "record", "wait")
            },
            "idle_share": counts.idle_share(),
        },
        "sha256": sha256(server.params),
        "seal": writer.seal.text(),
    }
    writer.document("result.json", summary)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _owned(params: Vector) -> Vector:
    return params.copy()  # safetensors takes no read-only view


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
