"""The figure of cosine similarity: does the likeness of models show the likeness of data, once somebody is late?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.drawing import drawn, series
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, made
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.spec import TITLES

_SEEDS = (1, 2, 3)
_PANELS = (
    ("synchronous: models", "synchronous", ""),
    ("asynchronous: models", "asynchronous", ""),
    ("asynchronous: what a round changed", "asynchronous", ", change"),
)
_SHOWN = (1, 2, 5, 10, 20)


def _measure(choice: Choice) -> Mapping[str, Any]:
    from afbs.reproduce.cosine import similarities

    dataset = choice.datasets[0] if choice.datasets else "cifar10"
    found = [similarities(dataset, seed) for seed in choice.seeds or _SEEDS]
    return {"dataset": dataset, "series": {name: [run[name] for run in found] for name in found[0]}}


def _page(choice: Choice, finds: Gathered) -> Page:
    found = finds.measured.get("series", {})
    rows = [[name, *(spread([run[turn - 1] for run in runs], 3) for turn in _SHOWN)] for name, runs in found.items()]
    values = [
        {"pair": name, "run": place, **{f"round {turn + 1}": value for turn, value in enumerate(run)}}
        for name, runs in found.items()
        for place, run in enumerate(runs)
    ]
    dataset = TITLES[finds.measured["dataset"]] if found else ""
    heading = ["cosine", *(f"round {turn}" for turn in _SHOWN)]
    tables = [Sheet("cosine", f"{dataset}: cosines of models, and of what a round changed", heading, rows, values)]
    panels = {}
    for title, time, what in _PANELS if found else ():
        panels[title] = series({pair: found[f"{time}, {pair}{what}"] for pair in ("alike", "unlike")}, "round")
    notes = (
        "Alike: two clients with the same half of the labels; asynchronously one of them stays with its first round. "
        "Unlike: two that both go on, with different halves. The paper's claim is that asynchronously the unlike pair "
        "may come out as the more similar one.",
    )
    figures = drawn("fig-cosine", panels) if panels else {}
    return made("fig-cosine", "Cosine similarity of models", tables if found else [], (), finds, notes, figures)


_TITLE = "do models tell whose data are alike, once somebody is late?"
FIG_COSINE = Exhibit("fig-cosine", _TITLE, lambda choice: (), _page, measure=_measure, heeds=("--dataset", "--seeds"))
