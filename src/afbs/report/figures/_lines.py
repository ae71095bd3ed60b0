"""What is watched, over time, steps, updates or real time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afbs.metrics import Metric
from afbs.record.columns import Floats
from afbs.report.arms import Arm
from afbs.report.digest import Digest
from afbs.report.figures._canvas import clock_of, first_of, last_of, legend, new, text_of, unit_of
from afbs.report.paper import line_style

_GRID = 160


def _curve(metric: Metric, axis: str) -> Callable[[Sequence[Arm]], Any]:
    def make(arms: Sequence[Arm]) -> Any:
        figure, axes = new()
        scale, unit = unit_of(max(last_of(run.curve[axis]) for arm in arms for run in arm.runs))
        timed = axis in ("time", "wall")
        drawn = 0
        for arm in arms:
            seeds = [_seed_line(runs, axis, metric.name) for runs in arm.by_seed]
            lines = [line for line in seeds if len(line[0])]
            if not lines:
                continue
            drawn += 1
            x, mean, spread = _averaged(lines)
            x = x / scale if timed else x
            factor = 100 if metric.share else 1
            axes.plot(x, mean * factor, label=text_of(arm.label), **line_style(arm.look, len(x)))
            if len(lines) > 1:
                low, high = (mean - spread) * factor, (mean + spread) * factor
                if metric.share:
                    low, high = np.clip(low, 0, 100), np.clip(high, 0, 100)
                axes.fill_between(x, low, high, color=arm.look.light, alpha=0.15, linewidth=0)
        names = {"time": f"{clock_of(arms)} ({unit})", "wall": f"Wall time ({unit})"}
        axes.set_xlabel(names.get(axis, "Steps of the global model" if axis == "version" else "Client updates"))
        axes.set_ylabel(text_of(f"Test {metric.axis}"))
        axes.set_xlim(left=0)
        legend(axes, drawn)
        return figure if drawn else None

    return make


def fairness(arms: Sequence[Arm]) -> Any:
    known = [(arm, arm.runs[0].fairness) for arm in arms if arm.runs[0].fairness]
    if not known:
        return None
    metric = arms[0].metric
    figure, axes = new()
    scale, unit = unit_of(max(found["time"][-1] for _, found in known))
    for arm, found in known:
        x, factor = np.array(found["time"]) / scale, 100 if metric.share else 1
        axes.plot(x, factor * np.array(found["mean"]), label=first_of(arm), **line_style(arm.look, len(x)))
        worst = line_style(arm.look, len(x)) | {"linestyle": ":"}
        axes.plot(x, factor * np.array(found["worst"]), **worst)
    axes.set_xlabel(f"{clock_of(arms)} ({unit}; dotted: worst tenth of the clients)")
    axes.set_ylabel(text_of(f"Clients' {metric.axis}"))
    axes.set_xlim(left=0)
    legend(axes, len(known))
    return figure


def curves(metrics: Sequence[Metric]) -> dict[str, Callable[[Sequence[Arm]], Any]]:
    """The metric to watch over every axis, the others over virtual time."""
    axes = {"time": "time", "steps": "version", "updates": "updates", "wall": "wall"}
    watched = {f"{metrics[0].name}-{name}": _curve(metrics[0], axis) for name, axis in axes.items()}
    return {**watched, **{f"{metric.name}-time": _curve(metric, "time") for metric in metrics[1:]}}


def _known(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = np.isfinite(x) & np.isfinite(y)
    return x[there], y[there]


def _seed_line(runs: Sequence[Digest], axis: str, metric: str) -> tuple[Floats, Floats]:
    """The line of a seed: that of its one run, or the mean of its runs."""
    known = [_known(run.curve[axis], run.curve[metric]) for run in runs]
    lines = [line for line in known if len(line[0])]
    return _averaged(lines)[:2] if lines else (np.empty(0), np.empty(0))


def _averaged(lines: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Mean and deviation on a common grid, as far as every line reaches; one line stays as it is."""
    if len(lines) == 1:
        x, y = lines[0]
        return x, y, np.zeros(len(x))
    start = max(x[0] for x, _ in lines)
    grid = np.linspace(start, max(start, min(x[-1] for x, _ in lines)), _GRID)
    table = np.array([np.interp(grid, x, y) for x, y in lines])
    return grid, table.mean(axis=0), table.std(axis=0, ddof=1)
