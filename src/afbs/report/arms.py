"""Which runs belong together: an arm is what was tried, and its runs differ by their seed alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from afbs.record.columns import Floats, Ints
from afbs.report.digest import Digest
from afbs.report.palette import Look, display, looks
from afbs.report.words import clip

_BOOKKEEPING = ("name", "run.name", "run.workers", "run.executor", "run.device", "run.folder", "run.checkpoint_seconds")


class Spread(NamedTuple):
    """A mean and a standard deviation over `number` runs; the deviation is nan for a single one."""

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

    @cached_property
    def seeds(self) -> int:
        return len({run.seed for run in self.runs})

    def spread(self, number: Callable[[Digest], float | None]) -> Spread:
        """Over the runs that have the number; `number` of them may be fewer than the arm's runs."""
        values = [value for value in map(number, self.runs) if value is not None and math.isfinite(value)]
        if not values:
            return Spread(math.nan, math.nan, 0)
        return Spread(
            float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan, len(values)
        )

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


class Setting(NamedTuple):
    """One line of the configuration, over all arms. `differs` within what was compared, bookkeeping aside."""

    path: str
    values: tuple[str, ...]
    differs: bool


def arms_of(digests: Sequence[Digest]) -> list[Arm]:
    """Runs of equal settings together, in the order in which the arms first appear."""
    groups: dict[str, list[Digest]] = {}
    for one in digests:
        flat = flatten(one.config) or {"run.name": one.name}
        same = {path: value for path, value in flat.items() if not bookkeeping(path)} or {"run.name": one.name}
        key = json.dumps([one.algorithm, sorted(same.items())])
        groups.setdefault(key, []).append(one)
    runs = [tuple(sorted(group, key=lambda run: (run.seed is None, run.seed or 0))) for group in groups.values()]
    runs.sort(key=lambda group: _rank(group[0].algorithm))
    names = _labels(runs)
    return [Arm(*each) for each in zip(names, looks([group[0].algorithm for group in runs]), runs, strict=True)]


def settings_of(arms: Sequence[Arm]) -> list[Setting]:
    """Every setting of every arm. The seeds of an arm's runs are listed together."""
    flats = [[flatten(run.config) for run in arm.runs] for arm in arms]
    paths = sorted({path for arm in flats for flat in arm for path in flat}, key=_table_order)
    table = []
    for path in paths:
        values = tuple(", ".join(dict.fromkeys(flat.get(path, "–") for flat in arm)) for arm in flats)
        table.append(Setting(path, values, len(set(values)) > 1 and not bookkeeping(path)))
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
    return path in _BOOKKEEPING or path.startswith("record.") or path.rpartition(".")[2] == "seed"


def _rank(algorithm: str) -> int:
    """AFBS first, for it is what the others are compared with; the others stay as they came."""
    return 0 if algorithm == "afbs" else 1


def _table_order(path: str) -> tuple[int, str]:
    order = ("run", "algorithm", "data", "partition", "model", "training", "latency", "availability", "clusters")
    table = path.partition(".")[0]
    return (order.index(table) if table in order else len(order), path)


def _labels(groups: Sequence[Sequence[Digest]]) -> list[str]:
    labels = []
    for group in groups:
        rivals = [other for other in groups if other[0].algorithm == group[0].algorithm]
        name = clip(display(group[0].algorithm), 40)
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
