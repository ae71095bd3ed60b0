"""What one run found, small enough to be committed: `cell.json`, `curve.csv`, and the `config.toml` that does it again.

Tables and figures are made of nothing else, so they can be made again from the committed files alone.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tomli_w

from afbs.config import load
from afbs.experiment.arithmetic import setting
from afbs.experiment.provenance import digests
from afbs.experiment.result import Result
from afbs.record.reader import read_config, read_result
from afbs.record.writer import replace_file
from afbs.reproduce.heard import heard
from afbs.sweeps import Cell
from afbs.types import UserError

_MOST_POINTS = 120
_LATE = 2 / 3
"""Where the last third of a run begins."""
_FILES = ("cell.json", "curve.csv", "config.toml")


@dataclass(frozen=True)
class Evidence:
    """One run that has ended. `reason` says why; `heard` who took part; `made` with what, and from which settings."""

    name: str
    seed: int
    best: float
    final: float
    target: float
    time_to_target: float | None
    reason: str
    virtual_seconds: float
    horizon: float
    versions: int
    updates: Mapping[str, int]
    trained: int
    per_class: tuple[float | None, ...]
    heard: Mapping[str, Any]
    sha256: str
    seal: str
    made: Mapping[str, Any]
    curve: tuple[tuple[float, int, float, float], ...] = field(repr=False)
    """Virtual seconds, version, accuracy, loss."""

    @property
    def froze(self) -> bool:
        """It ended before its time, because clients trained with next to no learning rate."""
        return self.reason == "learning rate"

    @property
    def late(self) -> tuple[float, ...]:
        """All accuracies in the last third of the run: where a model sways from one evaluation to the next, their mean
        says how good it is, and its last or highest one how lucky."""
        return self.since(_LATE)

    @property
    def level(self) -> float:
        """The mean accuracy in the last third of the run."""
        return fmean(self.late)

    def since(self, share: float) -> tuple[float, ...]:
        """All accuracies from this share of the run's time on."""
        return tuple(point[2] for point in self.curve if point[0] >= share * self.virtual_seconds)

    def accuracy_at(self, time: float) -> float:
        """Between two evaluations on the straight line."""
        return float(np.interp(time, [point[0] for point in self.curve], [point[2] for point in self.curve]))


def found(cell: Cell, folder: Path) -> Evidence:
    """From a run folder."""
    record = Result.open(folder).record
    result: Mapping[str, Any] = record.result or {}
    meta: Mapping[str, Any] = record.meta
    evals = record.evals
    target = float(result["target"])
    points = list(
        zip(
            evals.time.tolist(),
            evals.version.tolist(),
            evals.of("accuracy").tolist(),
            (round(loss, 5) for loss in evals.of("loss").tolist()),
            strict=True,
        )
    )
    last = evals.per_class[-1].tolist() if len(evals.per_class) else []
    return Evidence(
        name=cell.name,
        seed=cell.seed,
        best=record.best,
        final=record.final,
        target=target,
        time_to_target=record.time_to(target),
        reason=record.end.reason if record.end else "",
        virtual_seconds=float(result["virtual_seconds"]),
        horizon=record.horizon,
        versions=int(result["versions"]),
        updates=dict(result["updates"]),
        trained=int(result["jobs"]["trained"]),
        per_class=tuple(None if math.isnan(share) else round(share, 4) for share in last),
        heard=heard(record, cell.config.training, getattr(cell.config.algorithm, "server_lr", 1.0)),
        sha256=str(result["sha256"]),
        seal=str(result["seal"]),
        made={
            "settings": digests(cell.config),
            "data": meta.get("data"),
            "versions": meta.get("versions"),
            "kernel": meta.get("kernel"),
            **{name: (meta.get("machine") or {}).get(name) for name in ("native", "blas", "python")},
            "commit": meta.get("git"),
        },
        curve=tuple(thinned(points, target, float(result["virtual_seconds"]))),
    )


def settings(folder: Path) -> dict[str, Any]:
    """The configuration that a run had, but for who computed it: `afbs run` of it does the run again."""
    return {table: value for table, value in read_config(folder).items() if table != "executor"}


def thinned(
    points: list[tuple[float, int, float, float]], target: float, end: float, most: int = _MOST_POINTS
) -> list[tuple[float, int, float, float]]:
    """About so many of them: evenly, and always the first, the best, the first at the target, and all of the last
    third."""
    if len(points) <= most:
        return points
    accuracy = np.array([point[2] for point in points])
    kept = {round(place) for place in np.linspace(0, len(points) - 1, most)}
    kept.add(int(np.nanargmax(accuracy)))
    kept.update(place for place, point in enumerate(points) if point[0] >= _LATE * end)
    reached = np.flatnonzero(accuracy >= target)
    kept.update(int(place) for place in reached[:1])
    return [points[place] for place in sorted(kept)]


def write(what: Evidence, config: Mapping[str, Any], folder: Path) -> None:
    """Into a folder of its own; equal runs on equal machines write equal bytes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        facts = {key: value for key, value in asdict(what).items() if key != "curve"}
        replace_file(folder / "cell.json", (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode())
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(("time", "version", "accuracy", "loss"))
        table.writerows(what.curve)
        replace_file(folder / "curve.csv", text.getvalue().encode())
        replace_file(folder / "config.toml", f"{_command(what)}{tomli_w.dumps(config)}".encode())
    except OSError as error:
        raise UserError(f"`--results`: {folder} cannot be written: {error.strerror}.") from error


def _command(what: Evidence) -> str:
    """A line that says how to get the same digits, where that takes more than the file."""
    same = setting(what.made.get("blas"))
    return f"# {same} afbs run results/cells/{what.name}/config.toml\n\n" if same else ""


def read(folder: Path) -> Evidence:
    """What `write` has written."""
    try:
        facts = json.loads((folder / "cell.json").read_text())
        with (folder / "curve.csv").open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        curve = tuple((float(row[0]), int(row[1]), float(row[2]), float(row[3])) for row in rows)
        return Evidence(**{**facts, "per_class": tuple(facts["per_class"])}, curve=curve)
    except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"{folder} is damaged: {error}. The run that it is of can be collected again.") from None


def is_there(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)


def is_of(folder: Path, run: Path) -> bool:
    """Whether a committed folder already holds what this run folder found: it ended in the same model.

    Not in the same record, which a younger library may write in other words.
    """
    return is_there(folder) and read(folder).sha256 == (read_result(run) or {}).get("sha256")


def is_settled(cell: Cell, folder: Path) -> bool:
    """Whether a committed folder tells of the very run that this cell asks for.

    Its configuration is read as the library reads it today: a setting that is younger than the run has its default. It
    names the kernel that was taken, which a cell leaves open.
    """
    if not is_there(folder):
        return False
    try:
        config = load(folder / "config.toml", {"model.kernel": cell.config.model.kernel})
        return digests(config) == digests(cell.config)
    except UserError:
        return False
