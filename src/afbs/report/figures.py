"""Figures for a paper: matplotlib, one style, one column wide; dashes, markers and hatches carry them in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afbs.metrics import Metric
from afbs.record.columns import Floats
from afbs.report import tables
from afbs.report.arms import Arm
from afbs.report.digest import Digest
from afbs.report.load import compared
from afbs.report.measures import OTHERS
from afbs.report.page import default_targets, named_targets
from afbs.report.palette import CLUSTERS
from afbs.report.paper import STYLE, line_style
from afbs.types import UserError

FORMATS = ("pdf", "png", "svg")
WIDTH, HEIGHT = 3.45, 2.35
_GRID = 160


def figures(
    folders: Iterable[str | Path],
    out: str | Path = "figures",
    kind: str = "pdf",
    on_note: Callable[[str], None] | None = None,
) -> list[Path]:
    """Every figure as a file of `kind`, and the table as Markdown, CSV and LaTeX.

    A figure for which the runs tell nothing is left out. `on_note` is told which runs were.
    """
    import matplotlib

    if kind not in FORMATS:
        raise UserError(f"`--format` must be one of {', '.join(FORMATS)}, got {kind!r}.")
    arms, left_out = compared(folders)
    target = Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(f"`{target}` cannot be made a folder: {_reason(error)}.") from None
    try:
        with matplotlib.rc_context(STYLE):
            written = [*_write_tables(arms, target), *_write_figures(arms, target, kind)]
    except OSError as error:
        raise UserError(f"`{error.filename or target}` cannot be written: {_reason(error)}.") from None
    if on_note is not None:
        for sentence in left_out:
            on_note(sentence)
    return written


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _write_figures(arms: Sequence[Arm], target: Path, kind: str) -> Iterator[Path]:
    for name, make in {**_curves(arms[0].runs[0].metrics), **_FIGURES}.items():
        figure = make(arms)
        if figure is not None:
            path = target / f"{name}.{kind}"
            # Without a date the same runs give the same bytes.
            figure.savefig(path, metadata={"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind))
            yield path


def _write_tables(arms: Sequence[Arm], target: Path) -> list[Path]:
    table = tables.summary(arms, named_targets(arms) or default_targets(arms))
    made = {"table.md": tables.markdown(table), "table.csv": tables.as_csv(table), "table.tex": tables.latex(table)}
    for name, text in made.items():
        (target / name).write_bytes(text.encode(errors="replace"))
    return [target / name for name in made]


def _curve(metric: Metric, axis: str) -> Callable[[Sequence[Arm]], Any]:
    def make(arms: Sequence[Arm]) -> Any:
        figure, axes = _new()
        scale, unit = _unit(max(_last(run.curve[axis]) for arm in arms for run in arm.runs))
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
            axes.plot(x, mean * factor, label=_text(arm.label), **line_style(arm.look, len(x)))
            if len(lines) > 1:
                low, high = (mean - spread) * factor, (mean + spread) * factor
                if metric.share:
                    low, high = np.clip(low, 0, 100), np.clip(high, 0, 100)
                axes.fill_between(x, low, high, color=arm.look.light, alpha=0.15, linewidth=0)
        names = {"time": f"{_clock(arms)} ({unit})", "wall": f"Wall time ({unit})"}
        axes.set_xlabel(names.get(axis, "Steps of the global model" if axis == "version" else "Client updates"))
        axes.set_ylabel(_text(f"Test {metric.axis}"))
        axes.set_xlim(left=0)
        _legend(axes, drawn)
        return figure if drawn else None

    return make


def _staleness(arms: Sequence[Arm]) -> Any:
    figure, rows = _rows(len(arms), 0.85, sharex=True)
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
        axes.set_title(_text(arm.label), fontsize=8, loc="left", pad=2)
        axes.locator_params(axis="y", nbins=3)
        if dropped.any():
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2, borderaxespad=0.2)
    rows[-1].locator_params(axis="x", integer=True)
    rows[-1].set_xlabel("Staleness (versions)")
    figure.supylabel("Updates", fontsize=8)
    return figure


def _buffer(arms: Sequence[Arm]) -> Any:
    """Of the first run of each arm that drops anything; if none does there is nothing to see."""
    chosen = [arm for arm in arms if arm.mean("dropped") > 0 and arm.runs[0].flow]
    if not chosen:
        return None
    figure, rows = _rows(len(chosen), 1.5)
    for axes, arm in zip(rows, chosen, strict=True):
        flow = arm.runs[0].flow
        scale, unit = _unit(_last(flow["time"]))
        x, width = flow["time"] / scale, 0.95 * flow["width"] / scale
        above = below = np.zeros(len(x))
        for i, name in enumerate(flow["clusters"]):
            colour = CLUSTERS[i % len(CLUSTERS)].light
            kept, dropped = np.nan_to_num(flow["kept"][i]), np.nan_to_num(flow["dropped"][i])
            axes.bar(x, kept, width, above, color=colour, label="others" if name == OTHERS else f"cluster {name}")
            axes.bar(x, -dropped, width, below, color="white", edgecolor=colour, hatch="////", linewidth=0.4)
            above, below = above + kept, below - dropped
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_title(_first(arm), fontsize=8, loc="left", pad=2)
        axes.set_ylabel("Updates a step")
        axes.set_xlabel(f"{_clock(arms)} ({unit}); hatched: dropped")
        if 1 < len(flow["clusters"]) <= 6:
            axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.1))
    return figure


def _scale(arms: Sequence[Arm]) -> Any:
    figure, axes = _new()
    known = [arm for arm in arms if arm.runs[0].scale]
    scale, unit = _unit(max((_last(arm.runs[0].scale["time"]) for arm in known), default=1.0))
    for arm in known:
        line = arm.runs[0].scale
        x = line["time"] / scale
        axes.plot(x, line["mean"], label=_text(arm.label), **line_style(arm.look, len(x)))
        axes.fill_between(x, line["low"], line["high"], color=arm.look.light, alpha=0.13, linewidth=0)
    axes.set_xlabel(f"{_clock(arms)} ({unit})")
    axes.set_ylabel("Total weight of a step")
    axes.set_ylim(bottom=0)
    _legend(axes, len(known))
    return figure if known else None


def _weights(arms: Sequence[Arm]) -> Any:
    figure, axes = _new()
    known = [arm for arm in arms if arm.runs[0].weights]
    for arm in known:
        line = arm.runs[0].weights
        axes.plot(
            line["staleness"], line["weight"], label=_text(arm.label), **line_style(arm.look, len(line["weight"]))
        )
    axes.set_xlabel("Staleness (versions)")
    axes.set_ylabel("Weight × updates in the step")
    axes.set_ylim(bottom=0)
    _legend(axes, len(known))
    return figure if known else None


def _participation(arms: Sequence[Arm]) -> Any:
    chosen = [arm for arm in arms if (arm.runs[0].clients["arrived"] > 0).any()][:6]
    if not chosen:
        return None
    figure, rows = _rows(len(chosen), 1.7)
    starved = False
    for axes, arm in zip(rows, chosen, strict=True):
        who = arm.runs[0].clients
        heard = who["arrived"] > 0
        share = np.where(heard, who["used"] / np.maximum(who["arrived"], 1), 0.0)
        counted, never = heard & (who["used"] > 0), heard & (who["used"] == 0)
        scale, unit = _unit(float(np.nanmax(who["latency"])) if np.isfinite(who["latency"]).any() else 1.0)
        x, y = who["latency"] / scale, who["examples"]
        dots = axes.scatter(
            x[counted], y[counted], c=share[counted], s=9, cmap="Greys", vmin=0, vmax=1, ec="black", lw=0.3
        )
        crosses = axes.scatter(x[never], y[never], marker="x", s=14, color="#c44601", linewidth=1.0)
        if (y[heard] > 0).any():
            axes.set_yscale("log")
        axes.set_title(_first(arm), fontsize=8, loc="left", pad=2)
        axes.set_ylabel("Examples")
        axes.set_xlabel(f"Time a job takes ({unit})")
        figure.colorbar(dots, ax=axes, label="share that counted", pad=0.02)
        starved |= bool(never.any())
    if starved:
        # Outside: among the clients its cross would look like one more.
        figure.legend([crosses], ["never counted"], loc="outside lower center")
    return figure


def _classes(arms: Sequence[Arm]) -> Any:
    known = [arm for arm in arms if len(arm.per_class)]
    if not known:
        return None
    columns = 4 if max(len(arm.label) for arm in known) < 12 else 1
    figure, axes = _new(HEIGHT + 0.14 * ((len(known) - 1) // columns))
    for i, arm in enumerate(known):
        x = np.arange(len(arm.per_class)) + (i - (len(known) - 1) / 2) * min(0.14, 0.6 / len(known))
        look = line_style(arm.look, 1) | {"linestyle": "none", "markersize": 4}
        axes.plot(x, 100 * arm.per_class, label=_text(arm.label), **look)
    axes.set_xlabel("Class")
    axes.set_ylabel("Accuracy (%)")
    axes.set_ylim(bottom=0)
    if len(known) > 1:
        # Outside: among the classes its marks would look like more of them.
        figure.legend(loc="outside upper center", ncols=columns, columnspacing=1.0)
    return figure


def _confusion(arms: Sequence[Arm]) -> Any:
    known = [arm for arm in arms if arm.confusion is not None][:8]
    if not known:
        return None
    figure, rows = _rows(len(known), 2.6)
    for axes, arm in zip(rows, known, strict=True):
        table = np.asarray(arm.confusion, np.float64)
        shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(shares, cmap="Greys", vmin=0, vmax=100)
        axes.grid(visible=False)
        axes.set_title(_text(arm.label), fontsize=8, loc="left", pad=2)
        axes.set_xlabel("Predicted class")
        axes.set_ylabel("True class")
        figure.colorbar(image, ax=axes, label="% of the true class", pad=0.02)
    return figure


def _clusters(arms: Sequence[Arm]) -> Any:
    found = next((arm.runs[0].clusters for arm in arms if arm.runs[0].clusters), None)
    if found is None:
        return None
    figure, axes = _new(height=0.7 + 0.22 * len(found["names"]))
    image = axes.imshow(100 * found["shares"], cmap="Greys", vmin=0, aspect="auto")
    axes.grid(visible=False)
    axes.set_yticks(range(len(found["names"])), [f"cluster {name}" for name in found["names"]])
    axes.set_xlabel("Class")
    figure.colorbar(image, ax=axes, label="% of labels", pad=0.02)
    return figure


def _cost(arms: Sequence[Arm]) -> Any:
    figure, axes = _new(height=0.7 + 0.3 * len(arms))
    y = np.arange(len(arms))
    trained = [_either(arm, "trained", "used") for arm in arms]
    skipped = [_either(arm, "skipped", "dropped") for arm in arms]
    colours = [arm.look.light for arm in arms]
    axes.barh(y, trained, 0.6, color=colours, label="trained")
    axes.barh(y, skipped, 0.6, trained, color="white", edgecolor=colours, hatch="////", linewidth=0.6, label="skipped")
    axes.set_yticks(y, [_text(arm.label) for arm in arms])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Jobs (hatched: dropped before they were trained)")
    return figure


def _clock(arms: Sequence[Arm]) -> str:
    return arms[0].runs[0].clock.capitalize()


def _fairness(arms: Sequence[Arm]) -> Any:
    known = [(arm, arm.runs[0].fairness) for arm in arms if arm.runs[0].fairness]
    if not known:
        return None
    metric = arms[0].metric
    figure, axes = _new()
    scale, unit = _unit(max(found["time"][-1] for _, found in known))
    for arm, found in known:
        x, factor = np.array(found["time"]) / scale, 100 if metric.share else 1
        axes.plot(x, factor * np.array(found["mean"]), label=_first(arm), **line_style(arm.look, len(x)))
        worst = line_style(arm.look, len(x)) | {"linestyle": ":"}
        axes.plot(x, factor * np.array(found["worst"]), **worst)
    axes.set_xlabel(f"{_clock(arms)} ({unit}; dotted: worst tenth of the clients)")
    axes.set_ylabel(_text(f"Clients' {metric.axis}"))
    axes.set_xlim(left=0)
    _legend(axes, len(known))
    return figure


def _curves(metrics: Sequence[Metric]) -> dict[str, Callable[[Sequence[Arm]], Any]]:
    """The metric to watch over every axis, the others over virtual time."""
    axes = {"time": "time", "steps": "version", "updates": "updates", "wall": "wall"}
    watched = {f"{metrics[0].name}-{name}": _curve(metrics[0], axis) for name, axis in axes.items()}
    return {**watched, **{f"{metric.name}-time": _curve(metric, "time") for metric in metrics[1:]}}


_FIGURES: dict[str, Callable[[Sequence[Arm]], Any]] = {
    "fairness": _fairness,
    "staleness": _staleness,
    "buffer": _buffer,
    "scale": _scale,
    "weights": _weights,
    "participation": _participation,
    "classes": _classes,
    "confusion": _confusion,
    "clusters": _clusters,
    "cost": _cost,
}


def _new(height: float = HEIGHT) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def _rows(number: int, height: float, sharex: bool = False) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 0.5 + height * number), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(number, 1, sharex=sharex)))


def _legend(axes: Any, number: int) -> None:
    if number > 1:
        axes.legend(ncols=1 if number < 5 else 2)


def _text(label: str) -> str:
    """A dollar sign would begin a formula."""
    return label.replace("$", r"\$")


def _first(arm: Arm) -> str:
    """The title of a figure about an arm's first run; with several seeds it says whose."""
    return _text(arm.label) if arm.seeds == 1 else f"{_text(arm.label)}, seed {arm.runs[0].seed}"


def _unit(longest: float) -> tuple[float, str]:
    for size, name in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if longest >= 3 * size:
            return size, name
    return 1.0, "s"


def _last(column: Floats) -> float:
    known = column[np.isfinite(column)]
    return float(known.max()) if len(known) else 0.0


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


def _either(arm: Arm, first: str, second: str) -> float:
    value = arm.mean(first)
    return value if np.isfinite(value) else arm.mean(second)
