"""Which runs belong together: an arm is what was tried, and its runs differ by their seed alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from afbs.metrics import Metric
from afbs.record.columns import Floats, Ints
from afbs.report.digest import Digest
from afbs.report.palette import Look, looks
from afbs.report.words import clip

_BOOKKEEPING = ("name", "run.name", "run.workers", "run.executor", "run.device", "run.folder", "run.checkpoint_seconds")


class Spread(NamedTuple):
    """A mean and a standard deviation over `number` seeds; the deviation is nan for a single one."""

    mean: float
    deviation: float
    number: int


@dataclass(frozen=True)
class Arm:
    """Runs of the same settings."""

    label: str
    look: Look
    runs: tuple[Digest, ...]

    @property
    def algorithm(self) -> str:
        return self.runs[0].algorithm

    @property
    def metric(self) -> Metric:
        """The one to watch: all runs that are compared have the same."""
        return self.runs[0].metric

    @cached_property
    def by_seed(self) -> tuple[tuple[Digest, ...], ...]:
        """Its runs, those of one seed together: a second run of a seed is no second sample."""
        groups: dict[object, list[Digest]] = {}
        for run in self.runs:
            groups.setdefault(run.folder if run.seed is None else run.seed, []).append(run)
        return tuple(tuple(group) for group in groups.values())

    @property
    def seeds(self) -> int:
        return len(self.by_seed)

    def values(self, number: Callable[[Digest], float | None]) -> list[tuple[int | None, float]]:
        """Each seed with its number, the mean over its runs; without the seeds that have none."""
        found = []
        for runs in self.by_seed:
            known = [value for value in map(number, runs) if value is not None and math.isfinite(value)]
            if known:
                found.append((runs[0].seed, float(np.mean(known))))
        return found

    def spread(self, number: Callable[[Digest], float | None]) -> Spread:
        """Over the seeds that have the number, which may be fewer than the arm has."""
        values = [value for _, value in self.values(number)]
        if not values:
            return Spread(math.nan, math.nan, 0)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return Spread(float(np.mean(values)), deviation, len(values))

    def fact(self, name: str) -> Spread:
        return self.spread(lambda run: getattr(run.facts, name))

    def mean(self, name: str) -> float:
        return self.fact(name).mean

    @cached_property
    def per_class(self) -> Floats:
        """The last accuracy of each class, on average over the runs that tell; nan for a class of which none does."""
        rows = [run.per_class for run in self.runs if len(run.per_class) == len(self.runs[0].per_class)]
        table = np.array(rows, np.float64)
        known = np.isfinite(table)
        return np.where(
            known.any(axis=0), np.where(known, table, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan
        )

    @cached_property
    def confusion(self) -> Ints | None:
        """The last confusions of all runs, added up."""
        known = [run.confusion for run in self.runs if run.confusion is not None]
        same = [table for table in known if table.shape == known[0].shape]
        return np.sum(same, axis=0) if same else None


class SettingRow(NamedTuple):
    """One line of the configuration, over all arms. `differs` within what was compared, bookkeeping aside."""

    path: str
    values: tuple[str, ...]
    differs: bool


def arms_of(digests: Sequence[Digest]) -> list[Arm]:
    """Runs of equal settings together, in the order in which the arms first appear."""
    groups: dict[str, list[Digest]] = {}
    for one in digests:
        groups.setdefault(tried(one), []).append(one)
    runs = [tuple(sorted(group, key=lambda run: (run.seed is None, run.seed or 0))) for group in groups.values()]
    names = _labels(runs)
    return [Arm(*each) for each in zip(names, looks([group[0].algorithm for group in runs]), runs, strict=True)]


def tried(run: Digest) -> str:
    """What a run tried, whatever its seed: its settings without the bookkeeping."""
    settings = {path: value for path, value in flatten(run.config).items() if not bookkeeping(path)}
    return json.dumps([run.algorithm, sorted((settings or {"run.name": run.name}).items())])


def without_copies(digests: Sequence[Digest]) -> tuple[list[Digest], list[Digest]]:
    """The runs, and apart from them those that are another's copy: same settings, same seed, same final model."""
    known: set[tuple[str, int | None, str]] = set()
    kept: list[Digest] = []
    copies: list[Digest] = []
    for one in digests:
        mark = None if one.sha256 is None else (tried(one), one.seed, one.sha256)
        (copies if mark in known else kept).append(one)
        if mark is not None:
            known.add(mark)
    return kept, copies


def settings_of(arms: Sequence[Arm]) -> list[SettingRow]:
    """Every setting of every arm. The seeds of an arm's runs are listed together."""
    flats = [[flatten(run.config) for run in arm.runs] for arm in arms]
    paths = sorted({path for arm in flats for flat in arm for path in flat}, key=_table_order)
    table = []
    for path in paths:
        values = tuple(", ".join(dict.fromkeys(flat.get(path, "–") for flat in arm)) for arm in flats)
        table.append(SettingRow(path, values, len(set(values)) > 1 and not bookkeeping(path)))
    return table


def flatten(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """`{"algorithm.buffer_size": "10", …}`."""
    flat: dict[str, str] = {}
    for name, value in config.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{path}."))
        else:
            flat[clip(path)] = clip(value if isinstance(value, str) else json.dumps(value, default=str), 200)
    return flat


def bookkeeping(path: str) -> bool:
    """Whether a setting says how a run was carried out and not what was tried."""
    return path in _BOOKKEEPING or path.startswith(("record.", "executor.")) or path.rpartition(".")[2] == "seed"


def _table_order(path: str) -> tuple[int, str]:
    order = ("run", "algorithm", "data", "partition", "model", "training", "latency", "availability", "clusters")
    table = path.partition(".")[0]
    return (order.index(table) if table in order else len(order), path)


def _labels(groups: Sequence[Sequence[Digest]]) -> list[str]:
    labels = []
    for group in groups:
        rivals = [other for other in groups if other[0].algorithm == group[0].algorithm]
        name = clip(group[0].title, 40)
        labels.append(name if len(rivals) == 1 else f"{name} ({_difference(group, rivals)})")
    return list(_unique(labels))


def _difference(group: Sequence[Digest], rivals: Sequence[Sequence[Digest]]) -> str:
    flats = [flatten(rival[0].config) for rival in rivals]
    mine = flatten(group[0].config)
    differing = [
        path
        for path in sorted({path for flat in flats for path in flat}, key=_table_order)
        if len({flat.get(path) for flat in flats}) > 1 and not bookkeeping(path)
    ]
    if not differing or len(differing) > 2:
        return clip(group[0].name, 40)
    return ", ".join(f"{path.rpartition('.')[2]} {clip(mine.get(path, '–'), 24)}" for path in differing)


def _unique(labels: Iterable[str]) -> Iterable[str]:
    seen: dict[str, int] = {}
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        yield label if seen[label] == 1 else f"{label} #{seen[label]}"
