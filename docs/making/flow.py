"""The data flow of a run, as a drawing."""

from __future__ import annotations

from collections.abc import Iterator

from making.animation import COLOURS, STYLE

_BLUE, _ORANGE, _TEAL = COLOURS[:3]
_W, _H = 960, 400
_BOXES = {
    "configuration": (20, 60, "configuration", "tables, checked", "var(--soft)"),
    "data": (20, 240, "data", "split over clients", "var(--soft)"),
    "connection": (240, 240, "connection", "virtual, real, replayed", _TEAL),
    "plan": (240, 60, "plan", "decides: metadata only", _BLUE),
    "jobs": (480, 60, "jobs", "of what will count", _BLUE),
    "workers": (480, 240, "workers", "train: vectors only", _ORANGE),
    "steps": (730, 150, "steps", "the next version", _ORANGE),
    "record": (730, 310, "record", "→ report, resume, verify", _TEAL),
}
_ARROWS = (
    ("M120 124V232", ""),
    ("M220 92H232", ""),
    ("M220 272H232", ""),
    ("M320 232V132", "instants"),
    ("M380 132V232", "orders"),
    ("M440 92H472", ""),
    ("M580 124V232", ""),
    ("M680 272C705 272 705 200 722 196", "updates"),
    ("M820 142C820 104 780 84 690 84", "more jobs ready"),
    ("M830 214V302", ""),
    ("M340 52C420 12 880 12 900 142", "steps, as decided"),
)


def drawing() -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {_W} {_H}" font-size="17" fill="var(--ink)">'
        f"<title>The data flow of a run</title><style>{STYLE}</style>"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="var(--soft)"/></marker></defs>' + "\n".join([*_arrows(), *_boxes()]) + "</svg>\n"
    )


def _boxes() -> Iterator[str]:
    for x, y, name, words, colour in _BOXES.values():
        yield f'<rect x="{x}" y="{y}" width="200" height="64" rx="12" fill="var(--card)" stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{x + 100}" y="{y + 27}" text-anchor="middle" font-weight="600">{name}</text>'
        yield f'<text x="{x + 100}" y="{y + 49}" text-anchor="middle" font-size="14" fill="var(--soft)">{words}</text>'


def _arrows() -> Iterator[str]:
    labels = {"instants": (312, 188, "end"), "orders": (388, 188, "start"), "updates": (700, 290, "start")}
    labels |= {"more jobs ready": (692, 114, "start"), "steps, as decided": (640, 14, "middle")}
    for path, words in _ARROWS:
        yield f'<path d="{path}" fill="none" stroke="var(--soft)" stroke-width="1.6" marker-end="url(#head)"/>'
        if words:
            x, y, anchor = labels[words]
            yield f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="13" fill="var(--soft)">{words}</text>'
