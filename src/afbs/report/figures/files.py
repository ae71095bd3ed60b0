"""Every figure and the table, as files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from afbs.report import tables
from afbs.report.arms import Arm
from afbs.report.figures._labels import classes, clusters, confusion
from afbs.report.figures._lines import curves, fairness
from afbs.report.figures._updates import buffer, cost, participation, staleness, step_scale, weights
from afbs.report.load import compared
from afbs.report.page import default_targets, named_targets
from afbs.report.paper import STYLE
from afbs.types import UserError

FORMATS = ("pdf", "png", "svg")


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
    for name, make in {**curves(arms[0].runs[0].metrics), **_FIGURES}.items():
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


_FIGURES: dict[str, Callable[[Sequence[Arm]], Any]] = {
    "fairness": fairness,
    "staleness": staleness,
    "buffer": buffer,
    "scale": step_scale,
    "weights": weights,
    "participation": participation,
    "classes": classes,
    "confusion": confusion,
    "clusters": clusters,
    "cost": cost,
}
