"""An audit as rows, CSV, Markdown, JSON and a figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from afbs.audit.verdicts import Audit
from afbs.audit.words import sentences
from afbs.privacy.exposure import Finding
from afbs.types import UserError

COLUMNS = {
    "clusters": "K",
    "mechanism": "mechanism",
    "attack": "attack",
    "distance": "total-variation error",
    "top": "main label found",
    "exact": "exact histograms",
    "advantage": "advantage on one sample",
    "allowed": "allowed",
    "agreement": "ARI",
    "note": "note",
}
SHADES = {"main label found": "#c44601", "exact histograms": "#5b51c9", "advantage on one sample": "#00708f"}


def rows(audits: Sequence[Audit]) -> list[dict[str, Any]]:
    """One row an attack; what belongs to the mechanism as a whole stands in its first row."""
    found = []
    for audit in audits:
        for verdict in audit.verdicts:
            for place, finding in enumerate(verdict.findings):
                row = _row(audit, verdict.mechanism, finding)
                if place == 0:
                    row["agreement"] = verdict.agreement
                    if verdict.membership is not None:
                        row["advantage"], row["allowed"] = verdict.membership.measured, verdict.membership.allowed
                found.append(row)
        found.append(_row(audit, "(any)", audit.side_channel))
        found.append(_row(audit, "(guess)", audit.guess))
    return found


def shown(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    if column in ("top", "exact"):
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def as_csv(audits: Sequence[Audit]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(audits))
    return text.getvalue()


def as_markdown(audits: Sequence[Audit]) -> str:
    lines = ["# What the label mechanisms give away", ""]
    for audit in audits:
        lines += [f"## {audit.clients} clients, {audit.classes} labels, K = {audit.clusters}", ""]
        lines += [f"- **{name}**: {text}" for name, text in sentences(audit).items()]
        lines += ["", f"ARI compares with {audit.reference}.", ""]
        columns = [column for column in COLUMNS if column != "clusters"]
        lines += [
            "| " + " | ".join(COLUMNS[column] for column in columns) + " |",
            "|" + "---|" * len(columns),
            *("| " + " | ".join(shown(row, column) for column in columns) + " |" for row in rows([audit])),
            "",
        ]
    return "\n".join(lines)


def as_json(audits: Sequence[Audit]) -> str:
    documents = [{**asdict(audit), "sentences": sentences(audit)} for audit in audits]
    return json.dumps(documents, indent=2) + "\n"


def make_room(folder: Path) -> None:
    """The folder, before minutes are spent on what it is to hold."""
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write(audits: Sequence[Audit], folder: Path) -> list[Path]:
    """All of it into one folder."""
    make_room(folder)
    texts = {"audit.csv": as_csv(audits), "audit.md": as_markdown(audits), "audit.json": as_json(audits)}
    with _explained(folder):
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        draw(audits, [folder / "audit.png", folder / "audit.pdf"])
    return [folder / name for name in (*texts, "audit.png", "audit.pdf")]


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "there is a file of that name" if isinstance(error, FileExistsError) else error.strerror or str(error)
        raise UserError(
            f"The audit cannot be written into {folder}: {reason}. `--folder` takes another place."
        ) from None


def draw(audits: Sequence[Audit], files: Sequence[Path]) -> None:
    """What the best attack on each mechanism finds, beside how good its clusters are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.6 + 3.3 * len(audits)), layout="constrained")
    panels = figure.subplots(len(audits), 2, squeeze=False, width_ratios=(3, 1), sharey="row")
    for audit, (left, right) in zip(audits, panels, strict=True):
        bars = _bars(audit)
        places = range(len(bars))
        for offset, (name, shade) in enumerate(SHADES.items()):
            heights = [(bar[name] or 0.0) for bar in bars.values()]
            shifted = [place + 0.27 * (offset - 1) for place in places]
            left.barh(shifted, heights, height=0.25, color=shade, label=name)
            for place, bar in zip(shifted, bars.values(), strict=True):
                text = "not measured" if bar[name] is None else f"{bar[name]:.2f}"
                left.text((bar[name] or 0.0) + 0.01, place, text, va="center", fontsize=7)
        right.barh(places, [bar["ARI"] or 0.0 for bar in bars.values()], height=0.5, color="#4f7d00")
        left.set_yticks(places, list(bars))
        left.invert_yaxis()
        left.set_xlim(0, 1.12)
        right.set_xlim(0, 1)
        left.set_title(f"What a curious server finds out (K = {audit.clusters}); less is better", fontsize=9)
        right.set_title("Clusters (ARI); more is better", fontsize=9)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, frameon=False, ncols=len(names), loc="outside upper center")
    for file in files:
        figure.savefig(file, dpi=150)


def _bars(audit: Audit) -> dict[str, dict[str, float | None]]:
    bars: dict[str, dict[str, float | None]] = {}
    for verdict in audit.verdicts:
        worst = audit.guess if verdict.silent else verdict.worst
        member = verdict.membership.measured if verdict.membership else None
        bars[verdict.mechanism] = dict(zip(SHADES, (worst.top, worst.exact, member), strict=True))
        bars[verdict.mechanism]["ARI"] = verdict.agreement
    plain = audit.side_channel
    bars["any, by a plain update"] = {**dict(zip(SHADES, (plain.top, plain.exact, None), strict=True)), "ARI": None}
    return bars


def _row(audit: Audit, mechanism: str, finding: Finding) -> dict[str, Any]:
    return {
        "clusters": audit.clusters,
        "mechanism": mechanism,
        "attack": finding.attack,
        "distance": finding.distance,
        "top": finding.top,
        "exact": finding.exact,
        "note": finding.note,
    }
