"""What became of updates: how stale they were, what they weighed, who sent them, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afbs.report.arms import Arm
from afbs.report.figures._canvas import clock_of, first_of, last_of, legend, new, rows_of, text_of, unit_of
from afbs.report.measures import OTHERS
from afbs.report.palette import CLUSTERS
from afbs.report.paper import line_style


def staleness(arms: Sequence[Arm]) -> Any:
    if any(run.light for arm in arms for run in arm.runs):
        return None
    figure, rows = rows_of(len(arms), 0.85, sharex=True)
    for axes, arm in zip(rows, arms, strict=True):
        length = max(len(run.staleness[0]) for run in arm.runs)
        kept, dropped = (
            np.sum([np.pad(run.staleness[i], (0, length - len(run.staleness[i]))) for run in arm.runs], axis=0)
            for i in (0, 1)
        )
        x = np.arange(length)
        axes.bar(x, kept, 0.9, color=arm.look.light, label="kept")
        axes.bar(
            x, dropped, 0.9, kept, color="white", edgecolor=arm.look.light, hatch="////", linewidth=0.6, label="dropped"
        )
        axes.set_title(text_of(arm.label), fontsize=8, loc="left", pad=2)
        axes.locator_params(axis="y", nbins=3)
        if dropped.any():
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2, borderaxespad=0.2)
    rows[-1].locator_params(axis="x", integer=True)
    rows[-1].set_xlabel("Staleness (versions)")
    figure.supylabel("Updates", fontsize=8)
    return figure


def buffer(arms: Sequence[Arm]) -> Any:
    """Of the first run of each arm that drops anything; if none does there is nothing to see."""
    chosen = [arm for arm in arms if arm.mean("dropped") > 0 and arm.runs[0].flow]
    if not chosen:
        return None
    figure, rows = rows_of(len(chosen), 1.5)
    for axes, arm in zip(rows, chosen, strict=True):
        flow = arm.runs[0].flow
        scale, unit = unit_of(last_of(flow["time"]))
        x, width = flow["time"] / scale, 0.95 * flow["width"] / scale
        above = below = np.zeros(len(x))
        for i, name in enumerate(flow["clusters"]):
            colour = CLUSTERS[i % len(CLUSTERS)].light
            kept, dropped = np.nan_to_num(flow["kept"][i]), np.nan_to_num(flow["dropped"][i])
            axes.bar(x, kept, width, above, color=colour, label="others" if name == OTHERS else f"cluster {name}")
            axes.bar(x, -dropped, width, below, color="white", edgecolor=colour, hatch="////", linewidth=0.4)
            above, below = above + kept, below - dropped
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_title(first_of(arm), fontsize=8, loc="left", pad=2)
        axes.set_ylabel("Updates a step")
        axes.set_xlabel(f"{clock_of(arms)} ({unit}); hatched: dropped")
        if 1 < len(flow["clusters"]) <= 6:
            axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.1))
    return figure


def step_scale(arms: Sequence[Arm]) -> Any:
    figure, axes = new()
    known = [arm for arm in arms if arm.runs[0].scale]
    scale, unit = unit_of(max((last_of(arm.runs[0].scale["time"]) for arm in known), default=1.0))
    for arm in known:
        line = arm.runs[0].scale
        x = line["time"] / scale
        axes.plot(x, line["mean"], label=text_of(arm.label), **line_style(arm.look, len(x)))
        axes.fill_between(x, line["low"], line["high"], color=arm.look.light, alpha=0.13, linewidth=0)
    axes.set_xlabel(f"{clock_of(arms)} ({unit})")
    axes.set_ylabel("Total weight of a step")
    axes.set_ylim(bottom=0)
    legend(axes, len(known))
    return figure if known else None


def weights(arms: Sequence[Arm]) -> Any:
    figure, axes = new()
    known = [arm for arm in arms if arm.runs[0].weights]
    for arm in known:
        line = arm.runs[0].weights
        axes.plot(
            line["staleness"], line["weight"], label=text_of(arm.label), **line_style(arm.look, len(line["weight"]))
        )
    axes.set_xlabel("Staleness (versions)")
    axes.set_ylabel("Weight × updates in the step")
    axes.set_ylim(bottom=0)
    legend(axes, len(known))
    return figure if known else None


def participation(arms: Sequence[Arm]) -> Any:
    chosen = [arm for arm in arms if (arm.runs[0].clients["arrived"] > 0).any()][:6]
    if not chosen:
        return None
    figure, rows = rows_of(len(chosen), 1.7)
    starved = False
    for axes, arm in zip(rows, chosen, strict=True):
        who = arm.runs[0].clients
        heard = who["arrived"] > 0
        share = np.where(heard, who["used"] / np.maximum(who["arrived"], 1), 0.0)
        counted, never = heard & (who["used"] > 0), heard & (who["used"] == 0)
        scale, unit = unit_of(float(np.nanmax(who["latency"])) if np.isfinite(who["latency"]).any() else 1.0)
        x, y = who["latency"] / scale, who["examples"]
        dots = axes.scatter(
            x[counted], y[counted], c=share[counted], s=9, cmap="Greys", vmin=0, vmax=1, ec="black", lw=0.3
        )
        crosses = axes.scatter(x[never], y[never], marker="x", s=14, color="#c44601", linewidth=1.0)
        if (y[heard] > 0).any():
            axes.set_yscale("log")
        axes.set_title(first_of(arm), fontsize=8, loc="left", pad=2)
        axes.set_ylabel("Examples")
        axes.set_xlabel(f"Time a job takes ({unit})")
        figure.colorbar(dots, ax=axes, label="share that counted", pad=0.02)
        starved |= bool(never.any())
    if starved:
        # Outside: among the clients its cross would look like one more.
        figure.legend([crosses], ["never counted"], loc="outside lower center")
    return figure


def cost(arms: Sequence[Arm]) -> Any:
    figure, axes = new(height=0.7 + 0.3 * len(arms))
    y = np.arange(len(arms))
    trained = [_either(arm, "trained", "used") for arm in arms]
    skipped = [_either(arm, "skipped", "dropped") for arm in arms]
    colours = [arm.look.light for arm in arms]
    axes.barh(y, trained, 0.6, color=colours, label="trained")
    axes.barh(y, skipped, 0.6, trained, color="white", edgecolor=colours, hatch="////", linewidth=0.6, label="skipped")
    axes.set_yticks(y, [text_of(arm.label) for arm in arms])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Jobs (hatched: dropped before they were trained)")
    return figure


def _either(arm: Arm, first: str, second: str) -> float:
    value = arm.mean(first)
    return value if np.isfinite(value) else arm.mean(second)
