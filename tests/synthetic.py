"""Run folders without training: a real plan of a real algorithm, with a made-up accuracy curve."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from afbs import registry
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.record.lines import line_of, step_line
from afbs.record.schema import SCHEMA
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import Arrived, ClientInfo, Decided, Event, Lost, Stopped
from federation import happens

CLASSES = 10
TITLES = {"afbs": "AFBS", "fedbuff": "FedBuff", "ca2fl": "CA2FL", "fedavg": "FedAvg"}
ADDING = ("afbs", "fedbuff", "fedavg")


def write_run(
    folder: Path,
    algorithm: str = "afbs",
    *,
    seed: int = 1,
    clients: int = 60,
    in_flight: int = 12,
    horizon: float = 200_000.0,
    clusters: int = 3,
    evaluations: int = 40,
    ceiling: float = 0.8,
    target: float = 0.5,
    labels: bool = True,
    name: str | None = None,
    ended: bool = True,
    config: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> Path:
    """Accuracy follows 1 - exp(-progress), with progress the sum of the steps' weights: more weight, sooner up."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    examples = np.maximum(1, rng.lognormal(4.0, 1.0, clients).astype(int))
    infos = [ClientInfo(i, int(examples[i]), i % clusters) for i in range(clients)]
    latency = Uniform()
    part = registry.find("algorithm", algorithm)(**(settings or {}))
    connection = VirtualTime(infos, latency, Always(), seed)
    (folder / "config.toml").write_text(
        tomli_w.dumps(
            {
                "run": {"name": name or algorithm, "seed": seed, "horizon": horizon, "in_flight": in_flight},
                "data": {"name": "synthetic"},
                "algorithm": {"name": algorithm, **(settings or {})},
                "evaluation": {"target": target},
                **(config or {}),
            }
        )
    )
    durations = [latency.duration(info, 0.0, Key.root(seed, "latency").child(info.id)) for info in infos]
    meta: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name or algorithm,
        "seed": seed,
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"afbs": "0.1.0", "torch": "2.13.0"},
        "machine": {"cpus": 2},
        "git": None,
        "parameters": 61_706,
        "horizon": horizon,
        "classes": CLASSES,
        "algorithm": algorithm,
        "title": TITLES.get(algorithm),
        "adds": algorithm in ADDING,
        "clients": {
            "id": list(range(clients)),
            "examples": examples.tolist(),
            "cluster": [info.cluster for info in infos],
            "latency": durations,
        },
        "partition": {},
        "clusters": {"mechanism": "sketch", "released": "a projection of label shares"},
    }
    if labels:
        meta["labels"] = [_label_counts(info, rng) for info in infos]
    (folder / "meta.json").write_text(json.dumps(meta))

    written = _Writer(folder, evaluations, horizon, ceiling, rng)
    for event in happens(part, infos, connection, in_flight=in_flight, horizon=horizon, seed=seed):
        written.add(event)
    written.close(ended, target)
    return folder


class _Writer:
    def __init__(self, folder: Path, evaluations: int, horizon: float, ceiling: float, rng: np.random.Generator):
        self.folder = folder
        self.file = (folder / "events.jsonl").open("w")
        self.grid = list(np.linspace(0, horizon, evaluations))
        self.horizon, self.ceiling, self.rng = horizon, ceiling, rng
        self.confusion: list[list[int]] = []
        self.version = 0
        self.progress = 0.0
        self.accuracies: list[tuple[float, float]] = []
        self.counts = {"arrived": 0, "used": 0, "dropped": 0, "rejected": 0, "lost": 0, "missing": 0, "left": 0}
        self.samples = 0
        self.time = 0.0

    def add(self, event: Event) -> None:
        while self.grid and event.time > self.grid[0]:
            self._evaluate(self.grid.pop(0))
        self.time = event.time
        if isinstance(event, Stopped):
            while self.grid:
                self._evaluate(self.grid.pop(0))
            self.reason = event.reason
        elif isinstance(event, Decided):
            step = event.step
            self.version = event.version
            self.progress += sum(step.weights)
            self.counts["used"] += len(step.used)
            self.counts["dropped"] += len(step.dropped)
            self.samples += sum(update.examples for update in step.used)
            self._write({**step_line(event), "seal": "0" * 16, "wall": self.time / 1000})
        else:
            self.counts["arrived"] += isinstance(event, Arrived)
            self.counts["lost"] += isinstance(event, Lost)
            self._write(line_of(event))

    def close(self, ended: bool, target: float) -> None:
        if not ended:
            self.file.write('{"event": "dispatch", "time": 1.0, "cli')
            self.file.close()
            return
        end = {"event": "end", "time": self.time, "reason": self.reason, "confusion": self.confusion}
        self._write({**end, "wall": self.time / 1e3})
        self.file.close()
        reached = [time for time, accuracy in self.accuracies if accuracy >= target]
        result = {
            "best": max(accuracy for _, accuracy in self.accuracies),
            "final": self.accuracies[-1][1],
            "target": target,
            "time_to_target": reached[0] if reached else None,
            "versions": self.version,
            "virtual_seconds": self.time,
            "updates": self.counts,
            "jobs": {
                "trained": self.counts["used"],
                "skipped": self.counts["dropped"],
                "samples": self.samples * 5,
                "steps": self.samples * 5 // 64,
            },
            "evaluations": len(self.accuracies),
            "upload_bytes": self.counts["used"] * 61_706 * 4,
            "skipped_upload_bytes": self.counts["dropped"] * 61_706 * 4,
            "wall": {"total": self.time / 1000, "train": self.time / 1200, "evaluate": 1.0, "plan": 0.5},
            "sha256": sha256(str(self.accuracies).encode()).hexdigest(),
            "seal": "0" * 16,
        }
        (self.folder / "result.json").write_text(json.dumps(result))

    def _evaluate(self, time: float) -> None:
        rise = 1 - math.exp(-self.progress / 15)
        accuracy = min(1.0, max(0.0, 0.1 + (self.ceiling - 0.1) * rise + 0.01 * self.rng.standard_normal()))
        per_class = np.clip(accuracy + 0.1 * self.rng.standard_normal(CLASSES), 0, 1)
        self.accuracies.append((time, accuracy))
        right = np.round(per_class * 100).astype(int)
        confusion = np.outer(100 - right, np.ones(CLASSES)).astype(int) // (CLASSES - 1)
        np.fill_diagonal(confusion, right)
        self.confusion = confusion.tolist()
        self._write(
            {
                "event": "eval",
                "time": time,
                "version": self.version,
                "accuracy": accuracy,
                "loss": 2.3 * (1 - accuracy),
                "per_class": per_class.tolist(),
                "wall": time / 1000,
            }
        )

    def _write(self, line: dict[str, Any]) -> None:
        self.file.write(json.dumps(line) + "\n")


def _label_counts(info: ClientInfo, rng: np.random.Generator) -> list[int]:
    shares = np.where(np.arange(CLASSES) % 3 == info.cluster % 3, 1.0, 0.08)
    return [int(count) for count in rng.multinomial(info.examples, shares / shares.sum())]


def write_small(
    folder: Path,
    accuracies: Sequence[float],
    *,
    algorithm: str = "afbs",
    seed: int = 1,
    test_size: int = 10_000,
    every: float = 100.0,
    steps: Sequence[dict[str, Any]] = (),
    config: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    ended: bool = True,
) -> Path:
    """A run that is written out by hand: an evaluation every `every` seconds, and the given steps."""
    folder.mkdir(parents=True)
    settings = {"run": {"seed": seed}, "algorithm": {"name": algorithm}} | (config or {})
    (folder / "config.toml").write_text(tomli_w.dumps(settings))
    about = {
        "schema": SCHEMA,
        "name": folder.name,
        "seed": seed,
        "algorithm": algorithm,
        "title": TITLES.get(algorithm),
        "adds": algorithm in ADDING,
        "horizon": 1000.0,
        "parameters": 10,
    }
    (folder / "meta.json").write_text(json.dumps(about | (meta or {})))
    events: list[dict[str, Any]] = [
        {"event": "step", "wall": 1.0, "notes": {}, "rejected": [], "missing": [], **step} for step in steps
    ]
    for i, accuracy in enumerate(accuracies):
        events.append(
            {
                "event": "eval",
                "time": i * every,
                "version": i,
                "accuracy": accuracy,
                "loss": 1 - accuracy,
                "wall": i / 10,
            }
        )
    if ended:
        right = round(test_size * accuracies[-1]) if accuracies else 0
        confusion = [[right, test_size - right], [0, 0]]
        events.append({"event": "end", "reason": "horizon", "time": 1000.0, "wall": 9.0, "confusion": confusion})
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


def columns(*rows: tuple[int, int, int], weights: Sequence[float] | None = None) -> dict[str, list[Any]]:
    """The columns of a step from rows (client, staleness, examples)."""
    table: dict[str, list[Any]] = {
        "client": [row[0] for row in rows],
        "staleness": [row[1] for row in rows],
        "examples": [row[2] for row in rows],
        "order": list(range(len(rows))),
    }
    return table | ({"weight": list(weights)} if weights is not None else {})
