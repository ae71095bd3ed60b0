"""Figures about staleness and selection, drawn by matplotlib, in colours that follow the page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from making.animation import COLOURS, STYLE

from afbs.core.selection import BEST, SURVIVOR
from afbs.core.staleness import hinge, polynomial
from afbs.types import Arrived, Decided

matplotlib.use("agg")
import matplotlib.pyplot as plt

LATENCIES = ("uniform", "lognormal", "long_tailed")
_INK = "#010203"
"""Stands for the colour of the page's text, which is not known here."""


def selection(steps: Sequence[Decided], cluster_of: Mapping[int, int]) -> str:
    """Nine buffers: what was kept, what was dropped, and the corner of each yardstick."""
    figure, axes = _figure(3, 3, (9, 6.6), sharex=True, sharey=True)
    everybody = [update for step in steps for update in (*step.step.used, *step.step.dropped)]
    stalest, largest = max(u.staleness for u in everybody) + 0.8, 1.6 * max(u.examples for u in everybody)
    for axis, decided in zip(axes.flat, steps, strict=True):
        step = decided.step
        for update, why in zip((*step.used, *step.dropped), step.why, strict=True):
            colour = COLOURS[cluster_of[update.client] % len(COLOURS)]
            kept = update in step.used
            if why == BEST:
                axis.fill_between(
                    [update.staleness + 0.12, stalest], 0.8, update.examples * 0.93, color=colour, alpha=0.13, lw=0
                )
            axis.scatter(
                update.staleness, update.examples, s=110 if why == BEST else 46, marker="*" if why == BEST else "o",
                facecolors=colour if kept else "none", edgecolors=colour, linewidths=1.4, zorder=3,
            )  # fmt: skip
            if why == SURVIVOR:
                axis.annotate(
                    "lucky", (update.staleness, update.examples), (4, 4), textcoords="offset points", fontsize=8
                )
        axis.set(yscale="log", xlim=(-0.6, stalest), ylim=(0.8, largest))
        axis.set_title(f"version {decided.version}: {len(step.dropped)} dropped", fontsize=10)
    figure.supxlabel("staleness", fontsize=11)
    figure.supylabel("examples", fontsize=11)
    return _svg(figure, "Nine buffers of a real plan: staleness against examples, what was kept and what was dropped")


def staleness(arrivals: Mapping[str, Sequence[Arrived]]) -> str:
    """How stale arrivals are, under each latency model."""
    figure, axes = _figure(1, 3, (9, 2.9), sharey=True)
    for axis, (name, events), colour in zip(axes.flat, arrivals.items(), COLOURS, strict=False):
        found = np.array([event.update.staleness for event in events])
        bins = np.arange(0, 16) - 0.5
        axis.hist(
            np.minimum(found, 14), bins=bins, weights=np.full(len(found), 1 / len(found)), color=colour, rwidth=0.82
        )
        axis.axvline(found.mean(), color=_INK, linewidth=1, linestyle=(0, (3, 3)))
        axis.set_title(f"{name}: mean {found.mean():.1f}, stalest {found.max()}", fontsize=10)
        axis.set_xticks([0, 5, 10, 14], ["0", "5", "10", "14+"])
        axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
    figure.supxlabel("staleness", fontsize=11)
    axes.flat[0].set_ylabel("share of arrivals", fontsize=11)
    return _svg(figure, "Staleness of all arrivals in two virtual days, for three latency models")


def discounts() -> str:
    """The weight of an update by its staleness."""
    figure, axes = _figure(1, 1, (9, 3.1))
    axis = axes.flat[0]
    ages = list(range(21))
    curves = {
        "FedBuff, 1/√(1+τ)": [polynomial(age) for age in ages],
        "FedAsync's hinge (10, 6)": [hinge(age) for age in ages],
        "AFBS's score, 1/(1+τ)²": [(1 + age) ** -2 for age in ages],
        "FedAvg, FADAS: none": [1.0 for _ in ages],
    }
    for (name, values), colour in zip(curves.items(), COLOURS, strict=False):
        axis.plot(ages, values, color=colour, linewidth=2, marker="o", markersize=3.5, label=name)
    axis.set(xlabel="staleness τ", ylabel="weight", ylim=(0, 1.06), xlim=(-0.3, 20.3))
    axis.legend(frameon=False, labelcolor=_INK, loc="upper right", bbox_to_anchor=(1, 0.9))
    return _svg(figure, "The weight of an update by its staleness, for the rules there are")


def _figure(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    settings = {
        "svg.fonttype": "none", "svg.hashsalt": "afbs", "font.family": "sans-serif", "text.color": _INK,
        "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
        "axes.spines.top": False, "axes.spines.right": False, "font.size": 10,
    }  # fmt: skip
    plt.rcParams.update(settings)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **shared)
    return figure, axes


def _svg(figure: Any, title: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Title": title})
    plt.close(figure)
    text = re.sub(r"^.*?<svg ", "<svg ", buffer.getvalue(), flags=re.S).replace(_INK, "var(--ink)")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"|(<svg [^>]*?) height="[^"]*"', r"\1\2", text)
    text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text)
    return text.replace("<svg ", '<svg class="drawing" ', 1).replace("<defs>", f"<style>{STYLE}</style><defs>", 1)
