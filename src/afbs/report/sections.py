"""The page's figures: a heading, one sentence on how to read it, its controls, and a place to draw in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from afbs.report.arms import Arm
from afbs.report.markup import arm_row, table
from afbs.report.words import clip, count, data_size, duration, percent


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
    axes = [
        ("time", clock),
        ("version", "steps"),
        ("updates", "client updates"),
        ("wall", "wall time"),
    ]
    pick_run = "Run"
    return [
        Section(
            "curves",
            "Learning curves",
            "Higher and further to the left is better (for loss: lower); a band is one standard deviation between "
            "seeds, and a dotted line is a target.",
            _chart(
                "curves",
                "Accuracy or loss of every arm over the chosen axis",
                '<div class="controls">'
                + _choice("metric", "Show", [("accuracy", "accuracy"), ("loss", "loss")])
                + _choice("axis", "against", axes)
                + "</div>",
            ),
        ),
        Section(
            "targets",
            "Time to target",
            "Virtual time until an evaluation first reaches the target: shorter is better; change the targets to see "
            "whether the order holds.",
            '<p class="controls"><label class="picker"><span>Targets in %</span><input id="targets-input" type="text" '
            'inputmode="decimal" autocomplete="off" spellcheck="false"></label></p>'
            '<div class="wide" tabindex="0"><table id="targets-table"></table></div>'
            + _chart("targets", "Accuracy level against the time at which each arm first reached it"),
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
