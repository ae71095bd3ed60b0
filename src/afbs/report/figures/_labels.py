"""What was told apart: classes, and clusters of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afbs.report.arms import Arm
from afbs.report.figures._canvas import HEIGHT, new, rows_of, text_of
from afbs.report.paper import line_style


def classes(arms: Sequence[Arm]) -> Any:
    known = [arm for arm in arms if len(arm.per_class)]
    if not known:
        return None
    columns = 4 if max(len(arm.label) for arm in known) < 12 else 1
    figure, axes = new(HEIGHT + 0.14 * ((len(known) - 1) // columns))
    for i, arm in enumerate(known):
        x = np.arange(len(arm.per_class)) + (i - (len(known) - 1) / 2) * min(0.14, 0.6 / len(known))
        look = line_style(arm.look, 1) | {"linestyle": "none", "markersize": 4}
        axes.plot(x, 100 * arm.per_class, label=text_of(arm.label), **look)
    axes.set_xlabel("Class")
    axes.set_ylabel("Accuracy (%)")
    axes.set_ylim(bottom=0)
    if len(known) > 1:
        # Outside: among the classes its marks would look like more of them.
        figure.legend(loc="outside upper center", ncols=columns, columnspacing=1.0)
    return figure


def confusion(arms: Sequence[Arm]) -> Any:
    known = [arm for arm in arms if arm.confusion is not None][:8]
    if not known:
        return None
    figure, rows = rows_of(len(known), 2.6)
    for axes, arm in zip(rows, known, strict=True):
        table = np.asarray(arm.confusion, np.float64)
        shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(shares, cmap="Greys", vmin=0, vmax=100)
        axes.grid(visible=False)
        axes.set_title(text_of(arm.label), fontsize=8, loc="left", pad=2)
        axes.set_xlabel("Predicted class")
        axes.set_ylabel("True class")
        figure.colorbar(image, ax=axes, label="% of the true class", pad=0.02)
    return figure


def clusters(arms: Sequence[Arm]) -> Any:
    found = next((arm.runs[0].clusters for arm in arms if arm.runs[0].clusters), None)
    if found is None:
        return None
    figure, axes = new(height=0.7 + 0.22 * len(found["names"]))
    image = axes.imshow(100 * found["shares"], cmap="Greys", vmin=0, aspect="auto")
    axes.grid(visible=False)
    axes.set_yticks(range(len(found["names"])), [f"cluster {name}" for name in found["names"]])
    axes.set_xlabel("Class")
    figure.colorbar(image, ax=axes, label="% of labels", pad=0.02)
    return figure
