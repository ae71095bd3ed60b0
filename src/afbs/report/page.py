"""The report as one HTML file: the words and tables are in it as text, the figures are drawn by its own JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from afbs.report.arms import Arm, settings_of
from afbs.report.assets import plotly_js, static
from afbs.report.payload import payload, script_json
from afbs.report.sections import section_html, sections
from afbs.report.story import Verdict, verdict
from afbs.report.tables import Table, summary
from afbs.report.words import clip, count, duration, listing, plural


def render(arms: Sequence[Arm]) -> str:
    """The whole page."""
    targets = default_targets(arms)
    story = verdict(arms)
    title = _title(arms)
    data = script_json(payload(arms, targets))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'\">",
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title>",
        f"<style>{static('style.css')}{static('report.css')}</style></head>",
        '<body><a class="skip" href="#verdict">Skip to the verdict</a>',
        _header(arms, title),
        "<main>",
        _verdict(story),
        _summary(summary(arms, named_targets(arms)[:2] or targets[-1:])),
        _legend(),
        *(section_html(section) for section in sections(arms)),
        _configuration(arms),
        _provenance(arms),
        "</main>",
        _footer(),
        f'<script type="application/json" id="data">{data}</script>',
        f"<script>{plotly_js()}</script>",
        f"<script>{static('charts.js')}\n{static('report.js')}</script>",
        "</body></html>",
    ]
    return "\n".join(parts)


def default_targets(arms: Sequence[Arm]) -> list[float]:
    """What the runs name as their target, and levels that the arms reach early, midway and hardly."""
    named = named_targets(arms)
    if len(named) > 2:
        return named[:5]
    best = sorted((run.facts.best for arm in arms for run in arm.runs if run.facts.best > 0), reverse=True)
    if not best:
        return named
    level = best[min(1, len(best) - 1)]
    grain = 20 if level > 0.3 else 100
    levels = {round(level * share * grain) / grain for share in (0.6, 0.8, 0.95)} - {0.0}
    return sorted({*named, *(level for level in levels if all(abs(level - name) > 0.02 for name in named))})


def named_targets(arms: Sequence[Arm]) -> list[float]:
    return sorted({run.target for arm in arms for run in arm.runs if run.target})


def _title(arms: Sequence[Arm]) -> str:
    names = [arm.label for arm in arms]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return clip(listing(shown), 160)


def _header(arms: Sequence[Arm], title: str) -> str:
    runs = [run for arm in arms for run in arm.runs]
    first = runs[0]
    facts = [plural(len(runs), "run")]
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    if seeds:
        facts.append(f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds")
    data = first.config.get("data")
    if isinstance(data, dict) and data.get("name"):
        facts.append(f"data {clip(str(data['name']), 40)}")
    facts.append(plural(first.facts.clients, "client"))
    facts.append(f"{duration(first.horizon)} of virtual time")
    if first.meta.get("parameters"):
        facts.append(f"{count(float(first.meta['parameters']))} parameters")
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f'<header><p class="kicker">afbs · run report</p><h1>{escape(title)}</h1><ul class="facts">{items}</ul>'
        '<button id="theme" type="button" class="quiet" hidden>Dark</button></header>'
    )


def _verdict(story: Verdict) -> str:
    why = "".join(f"<li>{escape(sentence)}</li>" for sentence in story.why)
    caveats = " ".join(escape(sentence) for sentence in story.caveats)
    return (
        f'<section id="verdict" aria-labelledby="verdict-words" tabindex="-1"><h2 class="kicker">The verdict</h2>'
        f'<p id="verdict-words" class="verdict">{escape(story.headline)}</p>'
        f'{f"<ul class=why>{why}</ul>" if why else ""}<p class="caveats">{caveats}</p></section>'
    )


def _summary(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = []
    for i, (name, cells) in enumerate(zip(table.rows, table.cells, strict=True)):
        marks = {1: '<strong title="best">{}</strong>', 2: '<span class="second" title="second">{}</span>', 0: "{}"}
        shown = "".join(f"<td>{marks[cell.place].format(escape(cell.text))}</td>" for cell in cells)
        rows.append(f'<tr data-arm="{i}"><th scope="row"><span class="key"></span>{escape(name)}</th>{shown}</tr>')
    return (
        '<section id="summary"><h2>At a glance</h2><p class="reading">The best value of a column is bold, the second '
        "underlined; accuracies in percent, with mean ± standard deviation where there are several seeds.</p>"
        f'<div class="wide"><table><thead><tr><th scope="col">Arm</th>{head}</tr></thead><tbody>{"".join(rows)}'
        "</tbody></table></div></section>"
    )


def _legend() -> str:
    return (
        '<nav id="arms" class="arms" aria-label="Show or hide arms"></nav>'
        '<noscript><p class="note">The figures below need JavaScript; nothing is loaded from anywhere.</p></noscript>'
    )


def _configuration(arms: Sequence[Arm]) -> str:
    table = settings_of(arms)
    head = "".join(f'<th scope="col">{escape(arm.label)}</th>' for arm in arms)

    def row(path: str, values: Sequence[str], differs: bool) -> str:
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        mark = '<span class="differs" title="differs between the arms">≠</span> ' if differs else ""
        return f'<tr{" class=differs-row" if differs else ""}><th scope="row">{mark}{escape(path)}</th>{cells}</tr>'

    def shown(rows: Sequence[str]) -> str:
        return (
            f'<div class="wide"><table class="config"><thead><tr><th scope="col">Setting</th>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )

    different = [row(*line) for line in table if line.differs]
    everything = [row(*line) for line in table]
    body = shown(different) if different else '<p class="note">Nothing but the seed differs between the runs.</p>'
    return (
        '<section id="configuration"><h2>Configuration</h2><p class="reading">Lines marked ≠ differ between the arms: '
        "only what differs can explain a difference.</p>"
        f"{body if len(arms) > 1 else ''}<details{'' if len(arms) > 1 else ' open'}><summary>All settings</summary>"
        f"{shown(everything)}</details></section>"
    )


def _provenance(arms: Sequence[Arm]) -> str:
    rows = []
    for arm in arms:
        for run in arm.runs:
            versions = run.meta.get("versions")
            made = ", ".join(f"{k} {v}" for k, v in versions.items()) if isinstance(versions, dict) else ""
            cells = (
                run.folder,
                run.state,
                "–" if run.seed is None else str(run.seed),
                clip(str(run.meta.get("created") or "–"), 30),
                clip(str(run.meta.get("git") or "–"), 12),
                clip(made, 160),
                "; ".join(run.remarks) or "–",
            )
            rows.append("<tr>" + "".join(f"<td>{escape(clip(cell, 160))}</td>" for cell in cells) + "</tr>")
    names = ("Folder", "State", "Seed", "Begun", "Commit", "Versions", "Remarks")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<section id="runs"><h2>The runs</h2><p class="reading">Each line is one run folder; a run that did not '
        "end has a part of the story only.</p>"
        f'<div class="wide"><table class="config"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        "</div></section>"
    )


def _footer() -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<footer><p>Written by afbs on {now}. The file holds everything it shows; it loads nothing.</p></footer>"
