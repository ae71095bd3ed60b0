"""The comparison as a table: for the page, and as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afbs.report.arms import Arm, Spread
from afbs.report.digest import Digest
from afbs.report.story import time_to
from afbs.report.words import count, data_size, duration, percent


@dataclass(frozen=True)
class Cell:
    """What is shown, what it is ranked by (nan: not at all), and its place: 1 best, 2 second, 0 neither."""

    text: str
    value: float
    place: int = 0
    exact: str = ""


@dataclass(frozen=True)
class Table:
    """One row an arm. `better` says for each column whether high (1), low (-1) or neither (0) is good."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


def summary(arms: Sequence[Arm], targets: Sequence[float]) -> Table:
    """Accuracy, time to each target, and what it cost."""
    columns: list[tuple[str, int, Callable[[Arm], Cell]]] = [
        ("Final accuracy", 1, lambda arm: _accuracy(arm.fact("final"))),
        ("Best accuracy", 1, lambda arm: _accuracy(arm.fact("best"))),
    ]
    columns += [(f"Time to {_level(goal)}", -1, _time_cell(goal)) for goal in targets]
    columns += [
        ("Steps", 0, lambda arm: _count(arm.fact("steps"))),
        ("Updates used", 0, lambda arm: _count(arm.fact("used"))),
        ("Dropped", 0, lambda arm: _share(arm.mean("dropped"), arm.mean("used"))),
        ("Samples trained", 0, lambda arm: _count(arm.fact("samples"))),
        ("Upload", 0, lambda arm: Cell(data_size(arm.mean("upload")), math.nan, exact=_exact(arm.fact("upload")))),
    ]
    made = [_ranked([make(arm) for arm in arms], better) for _, better, make in columns]
    return Table(
        tuple(name for name, _, _ in columns),
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
    """Exact numbers; a mean and a deviation where there are several seeds."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arm", *table.columns])
    for name, cells in zip(table.rows, table.cells, strict=True):
        # A leading = + - @ would be run as a formula by a spreadsheet.
        safe = f"'{name}" if name[:1] in "=+-@\t\r" else name
        writer.writerow([safe, *(cell.exact or cell.text for cell in cells)])
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


def _level(target: float) -> str:
    return f"{100 * target:.4g} %"


def _accuracy(spread: Spread) -> Cell:
    if math.isfinite(spread.deviation):
        return Cell(f"{100 * spread.mean:.2f} ± {100 * spread.deviation:.2f}", spread.mean, exact=_exact(spread))
    return Cell(f"{100 * spread.mean:.2f}" if spread.number else "–", spread.mean, exact=_exact(spread))


def _time_cell(target: float) -> Callable[[Arm], Cell]:
    def make(arm: Arm) -> Cell:
        return time_cell(arm, lambda run: time_to(run, target))

    return make


def time_cell(arm: Arm, time: Callable[[Digest], float | None]) -> Cell:
    """The mean time if every run of the arm got there; otherwise how many did."""
    spread = arm.spread(time)
    if spread.number < len(arm.runs):
        text = "not reached" if not spread.number else f"{spread.number} of {len(arm.runs)} reached"
        return Cell(text, math.nan, exact="")
    plus = f" ± {duration(spread.deviation)}" if math.isfinite(spread.deviation) else ""
    return Cell(duration(spread.mean) + plus, spread.mean, exact=_exact(spread))


def _count(spread: Spread) -> Cell:
    return Cell(count(spread.mean), math.nan, exact=_exact(spread))


def _share(part: float, rest: float) -> Cell:
    whole = part + rest
    share = part / whole if whole else math.nan
    return Cell(percent(share, 0), math.nan, exact=f"{share:.6g}")


def _exact(spread: Spread) -> str:
    if not spread.number:
        return ""
    plus = f" ± {spread.deviation:.6g}" if math.isfinite(spread.deviation) else ""
    return f"{spread.mean:.6g}{plus}"


def _ranked(cells: list[Cell], better: int) -> list[Cell]:
    """Equal values share a place; one arm alone has none."""
    values = sorted({cell.value for cell in cells if math.isfinite(cell.value)}, reverse=better > 0)
    if not better or len(values) < 2:
        return cells
    places = {value: i + 1 for i, value in enumerate(values[:2])}
    return [Cell(cell.text, cell.value, places.get(cell.value, 0), cell.exact) for cell in cells]


def _markdown(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: f"\\{character}" for character in "&%$#_{}"}
    special |= {"±": r"$\pm$", "–": "--", "\u2009": r"\,", "λ": r"$\lambda$", "<": r"$<$", ">": r"$>$"}
    return "".join(special.get(character, character) for character in " ".join(text.split(" ")))
