"""Everything a run knows, for people: a page, figures, tables, a live view. It reads run folders and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from afbs.types import UserError


def write(folders: Iterable[str | Path], path: str | Path = "report.html") -> Path:
    """One self-contained HTML file about one run or a comparison of many."""
    from afbs.report.arms import arms_of
    from afbs.report.load import digests
    from afbs.report.page import render

    target = Path(path)
    text = render(arms_of(digests(folders)))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"`{target}` cannot be written: {error.strerror}.") from None
    return target
