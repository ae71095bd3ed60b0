"""The figure of who takes part: one label a client, latency rising with the label, with and without clustering.

The paper shows clouds of points; here are their numbers, each label's share of the updates that counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.drawing import bars, drawn
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, made
from afbs.reproduce.page import Page, Sheet

_SEEDS = (1, 2, 3)
_LATENCIES = {"even": "latency rises evenly, 0 to 6000 s", "steep": "latency doubles with every label, 12 s to 3.4 h"}
_ARMS = {"with": "ten clusters", "without": "without clustering"}


def _measure(choice: Choice) -> Mapping[str, Any]:
    from afbs.reproduce.participation import took_part

    return {
        latency: {
            arm: [took_part(arm == "with", latency == "steep", seed) for seed in choice.seeds or _SEEDS]
            for arm in _ARMS
        }
        for latency in _LATENCIES
    }


def _page(choice: Choice, finds: Gathered) -> Page:
    tables, panels = [], {}
    for latency, title in _LATENCIES.items():
        if latency not in finds.measured:
            continue
        found = finds.measured[latency]
        rows, values = [], []
        for label in range(10):
            row = [str(label)]
            for arm in _ARMS:
                runs = found[arm]
                row += [
                    spread([100 * run["used"][label] for run in runs], 1),
                    spread([100 * run["kept"][label] for run in runs], 1),
                    spread([float(run["never"][label]) for run in runs], 1),
                ]
                values += [{"label": label, "arm": arm, **{key: run[key][label] for key in run}} for run in runs]
            rows.append(row)
        heading = [
            "label",
            *(f"{words}: {what}" for words in _ARMS.values() for what in ("share, %", "kept, %", "never")),
        ]
        tables.append(Sheet(latency, f"One label a client, {title}", heading, rows, values))
        shares = {
            words: [100 * sum(run["used"][label] for run in found[arm]) / len(found[arm]) for label in range(10)]
            for arm, words in _ARMS.items()
        }
        panels[title] = bars(shares, "label, slower to the right", "share of what counted, %")
    notes = (
        "Share: of the updates that counted, those of this label (a tenth would be even). Kept: of this label's "
        "updates, those that counted. Never: of its 60 clients, those of whom nothing counted in 1,800 steps. Mean ± "
        "standard deviation over seeds. Nothing was trained: what is selected does not depend on content.",
    )
    figures = drawn("fig-participation", panels) if panels else {}
    return made("fig-participation", "Who takes part", tables, (), finds, notes, figures)


_TITLE = "who takes part where slow clients hold labels of their own"
FIG_PARTICIPATION = Exhibit("fig-participation", _TITLE, lambda choice: (), _page, measure=_measure, heeds=("--seeds",))
