"""The page's figures: a heading, one sentence on how to read it, its controls, and a place to draw in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from afbs.metrics import ACCURACY, Metric
from afbs.report.arms import Arm
from afbs.report.markup import arm_row, table
from afbs.report.words import clip, count, data_size, duration, listing, percent


@dataclass(frozen=True)
class Section:
    """`reading` is the one sentence that says how to read the figure."""

    id: str
    title: str
    reading: str
    body: str


def sections(arms: Sequence[Arm]) -> list[Section]:
    names = [arm.label for arm in arms]
    runs = [f"{arm.label}{'' if run.seed is None else f' · seed {run.seed}'}" for arm in arms for run in arm.runs]
    clock = arms[0].runs[0].clock
    light = any(run.light for arm in arms for run in arm.runs)
    axes = [
        ("time", clock),
        ("version", "steps"),
        *([] if light else [("updates", "client updates")]),
        ("wall", "wall time"),
    ]
    pick_run = "Run"
    metrics, metric = arms[0].runs[0].metrics, arms[0].metric
    found = [
        Section(
            "curves",
            "Learning curves",
            f"{_better(metrics)}, and further to the left is sooner; a band is one standard deviation between seeds, "
            "and a dotted line is a target.",
            _chart(
                "curves",
                f"{_capital(metric.called)} of every arm, or another metric, over the chosen axis",
                '<div class="controls">'
                + _choice("metric", "Show", [(each.name, escape(each.called)) for each in metrics])
                + _choice("axis", "against", axes)
                + "</div>",
            ),
        ),
        Section(
            "targets",
            "Time to target",
            f"{_capital(clock)} until an evaluation first reaches the target: shorter is better; change the targets to "
            "see whether the order holds.",
            f'<p class="controls"><label class="picker"><span>Targets{_in(metric)}</span>'
            '<input id="targets-input" type="text" inputmode="decimal" autocomplete="off" '
            'spellcheck="false"></label></p>'
            '<div class="wide" tabindex="0"><table id="targets-table"></table></div>'
            + _chart("targets", f"{_capital(metric.called)} against the time at which each arm first reached it"),
        ),
        Section(
            "staleness",
            "Staleness of what was kept and dropped",
            "Each bar counts the updates that came when the model was so many versions ahead: the full part counted, "
            "the hatched part was dropped.",
            _chart("staleness", "Histogram of staleness, kept and dropped, one row an arm"),
        ),
        Section(
            "buffer",
            "What each buffer kept and dropped",
            "Above the line is what an average step kept, below it what it dropped, by cluster: a colour that is only "
            "below is a cluster that is not heard.",
            _chart("buffer", "Updates kept and dropped a step over time, by cluster", _picker("buffer", runs, pick_run))
            + _reasons(arms),
        ),
        Section(
            "weights",
            "Weights",
            "The total weight of a step is the sum over its updates, 1 for a plain average; the line is the mean and "
            "the band holds the middle 80 % of the steps.",
            _chart("scale", f"Total weight of a step over {clock}")
            + '<p class="reading">How much an update of a given staleness weighs, against an equal share of a full '
            "step: a falling line trusts old updates less.</p>"
            + _chart("weight", "Mean weight of an update by its staleness"),
        ),
        Section(
            "participation",
            "Who counts",
            "Each dot is a client, placed by how long it takes and how much data it has: the fuller its colour, the "
            "larger the part of its updates that counted; a cross delivered and never counted.",
            _chart("participation", "Clients by latency and data size", _picker("participation", runs, pick_run)),
        ),
        Section(
            "classes",
            "Accuracy of each class",
            "Each mark is one arm's last accuracy on one class: a mark far below the others is a class that the arm "
            "starves.",
            _chart("classes", "Last accuracy of each class, by arm")
            + '<p class="reading">Rows are true classes, columns what the model said: a dark cell off the diagonal is '
            "a class taken for another.</p>"
            + _chart("confusion", "Confusion between classes", _picker("confusion", names, "Arm")),
        ),
        Section(
            "fairness",
            "Across clients",
            f"The model on what each client holds out: the full line is the mean {metric.called} over clients, the "
            "dotted one that of the worst tenth; the nearer the two, the more equally clients are served.",
            _chart("fairness", f"{_capital(metric.called)} on held-out data: mean over clients, and the worst tenth")
            + _fairness_table(arms),
        ),
        Section(
            "clusters",
            "Clusters and true labels",
            "Each row is a cluster as the server sees it, each column a class, and the darker the cell the larger the "
            "share of that class among its clients: clusters that differ have found something.",
            _chart("clusters", "Mean label shares of each cluster", _picker("clusters", runs, pick_run)),
        ),
        Section(
            "cost",
            "What it cost",
            "The full part of a bar was trained and uploaded; the hatched part was dropped before anybody trained it.",
            _chart("cost", "Jobs trained and skipped, by arm") + _cost_table(arms),
        ),
    ]
    told = {
        "classes": any(len(run.per_class) for arm in arms for run in arm.runs) or metric == ACCURACY,
        "fairness": any(run.fairness for arm in arms for run in arm.runs),
        **dict.fromkeys(("staleness", "buffer", "weights", "participation"), not light),
    }
    return [section for section in found if told.get(section.id, True)]


def _better(metrics: Sequence[Metric]) -> str:
    """`Higher is better for accuracy, lower for loss`."""
    sides = [[each.called for each in metrics if each.better == better] for better in ("more", "less")]
    words = [
        f"{way} is better for {listing(names)}" for way, names in zip(("higher", "lower"), sides, strict=True) if names
    ]
    return _capital(", ".join([words[0], *(word.replace(" is better", "") for word in words[1:])]))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _in(metric: Metric) -> str:
    unit = "%" if metric.share else metric.unit
    return f" in {escape(unit)}" if unit else ""


def _chart(name: str, label: str, controls: str = "") -> str:
    return (
        f'<figure>{controls}<div class="chart" id="chart-{name}" data-chart="{name}" role="img" '
        f'aria-label="{escape(label)}"></div><p class="note" id="note-{name}"></p>'
        f'<details class="numbers" data-of="{name}"><summary>The numbers</summary>'
        '<div class="wide" tabindex="0"></div></details></figure>'
    )


def _choice(name: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    """Radio buttons that look like one control."""
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if i == 0 else ""}>'
        f"<span>{text}</span></label>"
        for i, (value, text) in enumerate(options)
    )
    return f'<fieldset class="choice"><legend>{label}</legend>{buttons}</fieldset>'


def _picker(name: str, options: Sequence[str], label: str) -> str:
    items = "".join(f'<option value="{i}">{escape(text)}</option>' for i, text in enumerate(options))
    hidden = " hidden" if len(options) < 2 else ""
    return f'<label class="picker"{hidden}><span>{label}</span><select name="{name}">{items}</select></label>'


def _reasons(arms: Sequence[Arm]) -> str:
    """Why updates counted or did not, in the words of the algorithms, where they gave any."""
    rows = []
    for i, arm in enumerate(arms):
        found: Counter[tuple[bool, str]] = Counter()
        for run in arm.runs:
            found.update({(reason.used, reason.why): reason.number for reason in run.reasons})
        total = found.total()
        for (used, why), number in sorted(found.items(), key=lambda entry: (not entry[0][0], -entry[1]))[:20]:
            cells = ("kept" if used else "dropped", clip(why, 80), count(number), percent(number / total))
            rows.append(arm_row(i, arm.label, [escape(cell) for cell in cells]))
    if not rows:
        return ""
    head = ("Arm", "Fate", "Why", "Updates", "Share")
    reading = "Why updates counted or did not, as the algorithms put it, over all runs of an arm."
    return f'<p class="reading">{reading}</p>{table(head, rows, "reasons")}'


def _fairness_table(arms: Sequence[Arm]) -> str:
    rows = []
    for i, arm in enumerate(arms):
        known = [run.fairness for run in arm.runs if run.fairness]
        if known:
            last = [float(np.mean([each[name][-1] for each in known])) for name in ("mean", "worst", "spread")]
            rows.append(arm_row(i, arm.label, [escape(arm.metric.text(value)) for value in last]))
    return table(("Arm", "Mean", "Worst tenth", "Spread"), rows)


def _cost_table(arms: Sequence[Arm]) -> str:
    head = ("Arm", "Jobs trained", "Jobs skipped", "Samples trained", "Uploaded", "Upload saved", "Wall time")
    rows = []
    for i, arm in enumerate(arms):
        values = (
            count(arm.mean("trained")),
            count(arm.mean("skipped")),
            count(arm.mean("samples")),
            data_size(arm.mean("upload")),
            data_size(arm.mean("upload_saved")),
            duration(arm.mean("wall")),
        )
        rows.append(arm_row(i, arm.label, [escape(value) for value in values]))
    return table(head, rows)


def section_html(section: Section) -> str:
    return (
        f'<section id="{section.id}"><h2>{escape(section.title)}</h2>'
        f'<p class="reading">{escape(section.reading)}</p>{section.body}</section>'
    )
