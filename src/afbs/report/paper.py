"""How figures look on paper: one style for matplotlib, and its words for dashes and markers."""

from __future__ import annotations

from typing import Any

from afbs.report.palette import Look

STYLE: Any = {
    "font.family": "serif",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.88",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.3,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "afbs",
    "savefig.dpi": 300,
}
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.4)),
    "dashdot": (0, (5, 1.5, 1, 1.5)),
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (8, 1.5, 1, 1.5)),
}
_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "triangle-left": "<",
    "triangle-right": ">",
    "x": "x",
    "cross": "P",
    "star": "*",
    "pentagon": "p",
    "hexagon": "h",
    "star-square": "X",
}


def line_style(look: Look, points: int) -> dict[str, Any]:
    return {
        "color": look.light,
        "linestyle": _DASHES.get(look.dash, (0, (3, 1))),
        "marker": _MARKERS.get(look.marker, "o"),
        "markersize": 3,
        "markevery": max(1, points // 9),
    }
