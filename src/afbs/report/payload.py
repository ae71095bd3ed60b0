"""The data behind the page's figures, as plain JSON values; numbers are rounded to what a figure can show."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afbs.report.arms import Arm
from afbs.report.digest import Digest
from afbs.report.palette import CLUSTERS
from afbs.report.words import clip

MOST_CLASSES = 200
_CELLS = 400_000
_BARS = 400


def payload(arms: Sequence[Arm], targets: Sequence[float]) -> dict[str, Any]:
    """Everything that the page's JavaScript draws."""
    runs: list[dict[str, Any]] = []
    described: list[dict[str, Any]] = []
    for arm in arms:
        first = len(runs)
        runs += [_run(run, arm, len(described)) for run in arm.runs]
        described.append(_arm(arm, list(range(first, len(runs))), _CELLS // len(arms)))
    return {
        "arms": described,
        "runs": runs,
        "clock": arms[0].runs[0].clock,
        "targets": list(targets),
        "metrics": [
            {"name": each.name, "axis": each.axis, "title": each.called, "share": each.share, "sign": each.sign}
            | {"unit": "%" if each.share else each.unit}
            for each in arms[0].runs[0].metrics
        ],
        "classNames": _class_names(arms),
        "clusterColours": [[look.light, look.dark] for look in CLUSTERS],
    }


def _class_names(arms: Sequence[Arm]) -> list[str]:
    """Those of the data, if all runs agree on them."""
    named = {tuple(run.meta.get("class_names") or ()) for arm in arms for run in arm.runs}
    return [clip(name, 24) for name in named.pop()[:MOST_CLASSES]] if len(named) == 1 else []


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: it cannot end the element, whatever strings it holds."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plain(value: Any) -> Any:
    """Numpy to lists, numbers to five digits, what is not finite to null."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        short = float(f"{value:.5g}")
        return int(short) if short == int(short) else short
    return value


def _arm(arm: Arm, runs: list[int], cells: int) -> dict[str, Any]:
    kept, dropped, width = _pooled([run.staleness for run in arm.runs])
    return {
        "label": arm.label,
        "algorithm": clip(arm.algorithm, 60),
        "light": arm.look.light,
        "dark": arm.look.dark,
        "dash": arm.look.dash,
        "marker": arm.look.marker,
        "runs": runs,
        "seeds": [[runs[arm.runs.index(run)] for run in group] for group in arm.by_seed],
        "kept": kept,
        "dropped": dropped,
        "bar": width,
        "scale": arm.runs[0].scale,
        "weights": arm.runs[0].weights,
        "perClass": arm.per_class[:MOST_CLASSES],
        "classes": len(arm.per_class),
        "confusion": arm.confusion if arm.confusion is not None and arm.confusion.size <= cells else None,
        "cost": {
            name: arm.mean(name)
            for name in ("trained", "skipped", "used", "dropped", "samples", "upload", "upload_saved", "wall")
        },
    }


def _run(run: Digest, arm: Arm, number: int) -> dict[str, Any]:
    seed = "" if run.seed is None else f" · seed {run.seed}"
    return {
        "label": f"{arm.label}{seed}",
        "arm": number,
        "horizon": run.horizon,
        "curve": run.curve,
        "flow": run.flow,
        "fairness": run.fairness,
        "clients": run.clients,
        "clusters": run.clusters,
    }


def _pooled(histograms: Sequence[tuple[Any, Any]]) -> tuple[list[int], list[int], int]:
    """The sum over runs, in at most a few hundred bars, and how many versions wide a bar is."""
    length = max(len(kept) for kept, _ in histograms)
    total = np.zeros((2, length), np.int64)
    for pair in histograms:
        for row, counts in zip(total, pair, strict=True):
            row[: len(counts)] += counts
    used = np.flatnonzero(total.sum(axis=0))
    end = int(used[-1]) + 1 if len(used) else 1
    width = -(-end // _BARS)
    starts = np.arange(0, end, width)
    kept, dropped = (np.add.reduceat(row[:end], starts).tolist() for row in total)
    return kept, dropped, width
