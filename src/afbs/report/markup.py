"""Small pieces of HTML. Whatever comes from a run is escaped here or before."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    """A table that scrolls in its own box, also with the keyboard. `head` is plain text, `rows` are HTML."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return (
        f'<div class="wide" tabindex="0"><table class="{kind}"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def arm_row(number: int, label: str, cells: Sequence[str]) -> str:
    """A row about an arm; the page's JavaScript puts the arm's line before its name. `cells` are HTML."""
    shown = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr data-arm="{number}"><th scope="row"><span class="key"></span>{escape(label)}</th>{shown}</tr>'
