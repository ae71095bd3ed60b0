"""Draws the README's picture from the runs of `make run`, or of any `afbs compare`.

afbs compare examples/quickstart.toml --algorithms afbs,fedbuff,fedavg --runs runs/picture
python docs/picture.py runs/picture/*/cells/* docs/images/quickstart.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

import afbs

matplotlib.use("agg")
import matplotlib.pyplot as plt

COLOURS = {"afbs": "#0a5bc4", "fedbuff": "#c44601", "fedavg": "#4b4b52"}  # as in a report
NAMES = {"afbs": "AFBS", "fedbuff": "FedBuff", "fedavg": "FedAvg"}


def draw(folders: list[str], path: Path) -> None:
    results = sorted(
        (afbs.load(folder) for folder in folders), key=lambda result: list(NAMES).index(result.record.algorithm)
    )
    figure, (curves, bars) = plt.subplots(1, 2, figsize=(9, 3.3), width_ratios=(1.7, 1), layout="constrained")
    for row, result in enumerate(results):
        name, history = result.record.algorithm, result.history
        colour = COLOURS[name]
        curves.plot(history.time / 86_400, 100 * history.accuracy, color=colour, linewidth=1.8, label=NAMES[name])
        facts = result.record.result or {}
        trained, skipped = facts["jobs"]["trained"], facts["jobs"]["skipped"]
        bars.barh(row, trained, color=colour)
        bars.barh(row, skipped, left=trained, color="none", edgecolor=colour, hatch="///", linewidth=0.8)
        bars.text(
            trained + skipped, row, f" {trained:,}" + (f" + {skipped:,} never trained" if skipped else ""), va="center"
        )
    curves.set(xlabel="virtual days", ylabel="test accuracy (%)", ylim=(0, 100), xlim=(0, 2.02))
    curves.grid(alpha=0.25)
    curves.legend(frameon=False, loc="lower right")
    bars.set(xlabel="updates", yticks=range(len(results)), yticklabels=[NAMES[r.record.algorithm] for r in results])
    bars.set_xlim(0, 2.0 * max(bars.get_xlim()))
    bars.invert_yaxis()
    for axes in (curves, bars):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    draw(sys.argv[1:-1], Path(sys.argv[-1]))
