"""The comparison as a table: for the page, and as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afbs.metrics import Metric
from afbs.report.arms import Arm, Spread
from afbs.report.digest import Digest
from afbs.report.standings import time_to
from afbs.report.words import count, data_size, percent

_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class TableCell:
    """What is shown, the numbers behind it, and its place in its column: 1 best, 2 second, 0 neither."""

    text: str
    spread: Spread
    place: int = 0


@dataclass(frozen=True)
class Table:
    """One row an arm. `units` are those of the numbers behind the cells."""

    columns: tuple[str, ...]
    units: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[TableCell, ...], ...]


def summary(arms: Sequence[Arm], targets: Sequence[float]) -> Table:
    """The watched metric, time to each target, and what it cost."""
    metric = arms[0].metric
    unit = "" if metric.share else metric.unit
    columns: list[tuple[str, str, int, Callable[[Arm], TableCell]]] = [
        (f"Final {metric.called}", unit, metric.sign, lambda arm: _level(metric, arm.fact("final"))),
        (f"Best {metric.called}", unit, metric.sign, lambda arm: _level(metric, arm.fact("best"))),
    ]
    for goal in targets:
        common = _common_unit([arm.spread(_reaching(goal)).mean for arm in arms])
        columns.append((f"Time to {_goal(metric, goal)}", "s", -1, _time_cell(goal, common)))
    columns += [
        ("Steps", "", 0, lambda arm: _count(arm.fact("steps"))),
        ("Updates used", "", 0, lambda arm: _count(arm.fact("used"))),
        ("Dropped", "", 0, _dropped),
        ("Samples trained", "", 0, lambda arm: _count(arm.fact("samples"))),
        ("Upload", "bytes", 0, lambda arm: TableCell(data_size(arm.mean("upload")), arm.fact("upload"))),
    ]
    made = [_ranked([make(arm) for arm in arms], better) for _, _, better, make in columns]
    return Table(
        tuple(name for name, _, _, _ in columns),
        tuple(unit for _, unit, _, _ in columns),
        tuple(arm.label for arm in arms),
        tuple(tuple(column[i] for column in made) for i in range(len(arms))),
    )


def markdown(table: Table) -> str:
    """Best in bold, second underlined."""
    marks = {1: "**{}**", 2: "<u>{}</u>"}
    head = ["", *table.columns]
    lines = [head, ["---", *["---:"] * len(table.columns)]]
    for name, cells in zip(table.rows, table.cells, strict=True):
        lines.append([_markdown(name), *(marks.get(cell.place, "{}").format(_markdown(cell.text)) for cell in cells)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(table: Table) -> str:
    """Exact numbers; a second column with the standard deviation where there are several seeds."""
    several = [any(math.isfinite(row[i].spread.deviation) for row in table.cells) for i in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["Arm"]
    for name, unit, both in zip(table.columns, table.units, several, strict=True):
        full = f"{name} ({unit})" if unit else name
        head += [full, f"{full} sd"] if both else [full]
    writer.writerow(head)
    for name, cells in zip(table.rows, table.cells, strict=True):
        # A spreadsheet would take a leading = + - @ for a formula.
        row = [f"'{name}" if name[:1] in "=+-@\t\r" else name]
        for cell, both in zip(cells, several, strict=True):
            row += [_exact(cell.spread.mean), _exact(cell.spread.deviation)] if both else [_exact(cell.spread.mean)]
        writer.writerow(row)
    return out.getvalue()


def latex(table: Table) -> str:
    """For `booktabs`: best in bold, second underlined."""
    marks = {1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    lines = [
        "% \\usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(["", *(_latex(name) for name in table.columns)]) + r" \\",
        r"\midrule",
    ]
    for name, cells in zip(table.rows, table.cells, strict=True):
        shown = (marks.get(cell.place, "{}").format(_latex(cell.text)) for cell in cells)
        lines.append(" & ".join([_latex(name), *shown]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _goal(metric: Metric, target: float) -> str:
    return f"{100 * target:.4g} %" if metric.share else metric.text(target)


def _level(metric: Metric, spread: Spread) -> TableCell:
    if not metric.share:
        plus = f" ± {spread.deviation:.2g}" if math.isfinite(spread.deviation) else ""
        return TableCell(f"{spread.mean:.4g}{plus}" if spread.number else "–", spread)
    plus = f" ± {100 * spread.deviation:.2f}" if math.isfinite(spread.deviation) else ""
    return TableCell(f"{100 * spread.mean:.2f}{plus}" if spread.number else "–", spread)


def _reaching(target: float) -> Callable[[Digest], float | None]:
    return lambda run: time_to(run, target)


def _common_unit(times: Sequence[float]) -> tuple[float, str]:
    """The unit that suits the shortest time, so that a column can be compared at a glance."""
    known = [time for time in times if math.isfinite(time)]
    return next((unit for unit in _UNITS if known and min(known) >= 2 * unit[0]), _UNITS[-1])


def _time_cell(target: float, unit: tuple[float, str]) -> Callable[[Arm], TableCell]:
    """The mean time if every seed of the arm got there; otherwise how many did."""

    def make(arm: Arm) -> TableCell:
        spread = arm.spread(_reaching(target))
        if spread.number < arm.seeds:
            text = "not reached" if not spread.number else f"{spread.number} of {arm.seeds} reached"
            return TableCell(text, Spread(math.nan, math.nan, 0))
        size, name = unit
        plus = f" ± {spread.deviation / size:.1f}" if math.isfinite(spread.deviation) else ""
        return TableCell(f"{spread.mean / size:.1f}{plus} {name}", spread)

    return make


def _count(spread: Spread) -> TableCell:
    return TableCell(count(spread.mean), spread)


def _dropped(arm: Arm) -> TableCell:
    spread = arm.spread(lambda run: run.facts.dropped / max(1, run.facts.dropped + run.facts.used))
    return TableCell(percent(spread.mean, 0), spread)


def _exact(number: float) -> str:
    return f"{number:.10g}" if math.isfinite(number) else ""


def _ranked(cells: list[TableCell], better: int) -> list[TableCell]:
    """Equal values share a place; one arm alone has none."""
    values = sorted({cell.spread.mean for cell in cells if math.isfinite(cell.spread.mean)}, reverse=better > 0)
    if not better or len(values) < 2:
        return cells
    places = {value: i + 1 for i, value in enumerate(values[:2])}
    return [TableCell(cell.text, cell.spread, places.get(cell.spread.mean, 0)) for cell in cells]


def _markdown(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: f"\\{character}" for character in "&%$#_{}"}
    special |= {"±": r"$\pm$", "–": "--", "\u2009": r"\,", "λ": r"$\lambda$", "<": r"$<$", ">": r"$>$"}
    return "".join(special.get(character, character) for character in " ".join(text.split(" ")))
