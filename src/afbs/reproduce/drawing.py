"""Figures as files: PDF for a paper, SVG for a page; equal runs draw equal bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from afbs.report.palette import looks
from afbs.report.paper import STYLE, line_style
from afbs.reproduce.found import Found

_WIDTH, _HEIGHT = 3.45, 2.35
_DAY = 86_400
_GRID = 200
Panel = Callable[[Any], None]


def drawn(name: str, panels: Mapping[str, Panel], height: float = _HEIGHT) -> dict[str, bytes]:
    """`name.pdf` and `name.svg`: panels side by side, under their titles."""
    import matplotlib
    from matplotlib.figure import Figure

    files = {}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH * len(panels), height), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for one, (title, draw) in zip(axes, panels.items(), strict=True):
            draw(one)
            if title:
                one.set_title(title, fontsize=8)
        for kind, facts in (("pdf", {"CreationDate": None}), ("svg", {"Date": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, metadata=facts)
            files[f"{name}.{kind}"] = file.getvalue()
    return files


def curves(arms: Mapping[str, Sequence[Found]], target: float | None = None) -> Panel:
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


def held(run: Found, moments: Any) -> Any:
    """A run's accuracy at these moments: that of the last evaluation by then."""
    times = np.array([point[0] for point in run.curve])
    accuracy = np.array([point[2] for point in run.curve])
    return accuracy[np.clip(np.searchsorted(times, moments, side="right") - 1, 0, None)]
