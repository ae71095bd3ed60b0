"""Figures as files: PDF for a paper, SVG for a page; equal runs draw equal bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from afbs.report.palette import looks
from afbs.report.paper import STYLE, line_style
from afbs.reproduce.found import Evidence

_WIDTH, _HEIGHT = 3.45, 2.35
_DAY = 86_400
_GRID = 200
Panel = Callable[[Any], None]


def drawn(name: str, panels: Mapping[str, Panel], height: float = _HEIGHT) -> dict[str, bytes]:
    """`name.pdf` and `name.svg`: panels under their titles, two or three side by side."""
    import matplotlib
    from matplotlib.figure import Figure

    files = {}
    with matplotlib.rc_context(STYLE):
        across = 2 if len(panels) == 4 else min(3, len(panels))
        down = -(-len(panels) // across)
        figure = Figure(figsize=(_WIDTH * across, height * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for unused in axes[len(panels) :]:
            unused.set_axis_off()
        for one, (title, draw) in zip(axes, panels.items(), strict=False):
            draw(one)
            if title:
                one.set_title(title, fontsize=8)
        for kind, facts in (("pdf", {"CreationDate": None}), ("svg", {"Date": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, metadata=facts)
            files[f"{name}.{kind}"] = file.getvalue()
    return files


def curves(arms: Mapping[str, Sequence[Evidence]], target: float | None = None) -> Panel:
    """Accuracy against virtual days: the mean over seeds, and a band from the lowest to the highest."""

    def draw(axes: Any) -> None:
        there = {title: runs for title, runs in arms.items() if runs}
        for (title, runs), look in zip(there.items(), looks([title.lower() for title in there]), strict=True):
            end = min(run.curve[-1][0] for run in runs)
            days = np.linspace(0, end, _GRID)
            lines = np.array([held(run, days) for run in runs]) * 100
            axes.plot(days / _DAY, lines.mean(axis=0), label=title, **line_style(look, _GRID))
            if len(runs) > 1:
                axes.fill_between(days / _DAY, lines.min(axis=0), lines.max(axis=0), color=look.light, alpha=0.15, lw=0)
        if target is not None:
            axes.axhline(100 * target, color="0.4", linewidth=0.6, linestyle=":")
        axes.set_xlabel("virtual days")
        axes.set_ylabel("test accuracy, %")
        if there:
            axes.legend()

    return draw


def held(run: Evidence, moments: Any) -> Any:
    """A run's accuracy at these moments: that of the last evaluation by then."""
    times = np.array([point[0] for point in run.curve])
    accuracy = np.array([point[2] for point in run.curve])
    return accuracy[np.clip(np.searchsorted(times, moments, side="right") - 1, 0, None)]


def by_version(arms: Mapping[str, Sequence[Evidence]]) -> Panel:
    """Accuracy against versions, a line a run."""

    def draw(axes: Any) -> None:
        for (title, runs), look in zip(arms.items(), looks(list(arms)), strict=True):
            for place, run in enumerate(runs):
                versions, accuracy = [point[1] for point in run.curve], [100 * point[2] for point in run.curve]
                label = title if place == 0 else None
                axes.plot(versions, accuracy, label=label, **line_style(look, len(versions)))
        axes.set_xlabel("round")
        axes.set_ylabel("test accuracy, %")
        axes.legend()

    return draw


def series(lines: Mapping[str, Sequence[Sequence[float]]], axis: str) -> Panel:
    """Means over runs, with a band from the lowest to the highest."""

    def draw(axes: Any) -> None:
        for (title, runs), look in zip(lines.items(), looks(list(lines)), strict=True):
            values = np.array(runs)
            turns = np.arange(1, values.shape[1] + 1)
            axes.plot(turns, values.mean(axis=0), label=title, **line_style(look, len(turns)))
            axes.fill_between(turns, values.min(axis=0), values.max(axis=0), color=look.light, alpha=0.15, lw=0)
        axes.set_xlabel(axis)
        axes.set_ylabel("cosine")
        axes.legend()

    return draw


def bars(groups: Mapping[str, Sequence[float]], across: str, up: str) -> Panel:
    """Bars side by side."""

    def draw(axes: Any) -> None:
        width = 0.8 / len(groups)
        for place, ((title, values), look) in enumerate(zip(groups.items(), looks(list(groups)), strict=True)):
            hatch = "//" if place % 2 else None
            x = np.arange(len(values)) + (place - (len(groups) - 1) / 2) * width
            axes.bar(x, values, width, label=title, color=look.light, hatch=hatch, edgecolor="white", linewidth=0.4)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_xticks(range(len(next(iter(groups.values())))))
        axes.legend()

    return draw
