"""Everything a run knows, for people: a page, figures, tables, a live view. It reads run folders and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from afbs.types import UserError


def write(
    folders: Iterable[str | Path], path: str | Path = "report.html", on_note: Callable[[str], None] | None = None
) -> Path:
    """One self-contained HTML file about one run or a comparison of many. `on_note` is told what was left out."""
    from afbs.report.load import compared
    from afbs.report.page import render

    target = Path(path)
    arms, left_out = compared(folders)
    text = render(arms, left_out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode(errors="replace"))
    except (OSError, ValueError) as error:
        raise UserError(f"`{target}` cannot be written: {getattr(error, 'strerror', None) or error}.") from None
    if on_note is not None:
        for sentence in left_out:
            on_note(sentence)
    return target
