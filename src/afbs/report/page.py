"""The report as one HTML file: the words and tables are in it as text, the figures are drawn by its own JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

import numpy as np

from afbs.metrics import Metric
from afbs.record.recorded import setting
from afbs.report.arms import Arm, SettingRow, settings_of
from afbs.report.assets import plotly_js, static
from afbs.report.digest import Digest
from afbs.report.markup import arm_row, table
from afbs.report.payload import payload, script_json
from afbs.report.sections import section_html, sections
from afbs.report.story import Story, verdict
from afbs.report.tables import Table, summary
from afbs.report.words import clip, duration, listing, plural


def render(arms: Sequence[Arm], left_out: Sequence[str] = ()) -> str:
    """The whole page. `left_out` are sentences about runs that are not in it."""
    targets = default_targets(arms)
    story = verdict(arms)
    remarks = "".join(f'<p class="note">{escape(clip(sentence, 400))}</p>' for sentence in left_out)
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
        _summary(summary(arms, named_targets(arms)[:2] or targets[-1:]), arms[0].metric),
        _legend(),
        *(section_html(section) for section in sections(arms)),
        _configuration(arms),
        _provenance(arms, remarks),
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
    if not arms[0].metric.share:
        return sorted({*named, *_milestones(arms)})
    best = sorted((run.facts.best for arm in arms for run in arm.runs if run.facts.best > 0), reverse=True)
    if not best:
        return named
    level = best[min(1, len(best) - 1)]
    grain = 20 if level > 0.3 else 100
    levels = {round(level * share * grain) / grain for share in (0.6, 0.8, 0.95)} - {0.0}
    return sorted({*named, *(level for level in levels if all(abs(level - name) > 0.02 for name in named))})


def _milestones(arms: Sequence[Arm]) -> list[float]:
    """Early, midway and late on the way from where the first run began to the best of all."""
    values = [run.full[1][np.isfinite(run.full[1])] for arm in arms for run in arm.runs]
    known = [each for each in values if len(each)]
    if not known:
        return []
    start, best = float(known[0][0]), arms[0].metric.best(np.concatenate(known))
    return [float(f"{start + share * (best - start):.3g}") for share in (0.6, 0.8, 0.95)]


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
    data = setting(first.config, "data", "name")
    if data:
        facts.append(f"data {clip(str(data).rpartition(':')[2], 40)}")
    if first.facts.clients:
        facts.append(plural(first.facts.clients, "client"))
    facts.append(f"{duration(first.horizon)} of {first.clock}")
    if "parameters" in first.meta:
        facts.append(plural(first.meta["parameters"], "parameter"))
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f'<header><p class="kicker">afbs · run report</p><h1>{escape(title)}</h1><ul class="facts">{items}</ul>'
        '<button id="theme" type="button" class="quiet" hidden>Dark</button></header>'
    )


def _verdict(story: Story) -> str:
    why = "".join(f"<li>{escape(sentence)}</li>" for sentence in story.why)
    caveats = " ".join(escape(sentence) for sentence in story.caveats)
    return (
        f'<section id="verdict" aria-labelledby="verdict-words" tabindex="-1"><h2 class="kicker">The verdict</h2>'
        f'<p id="verdict-words" class="verdict">{escape(story.headline)}</p>'
        f'{f"<ul class=why>{why}</ul>" if why else ""}<p class="caveats">{caveats}</p></section>'
    )


def _summary(numbers: Table, metric: Metric) -> str:
    marks = {1: '<strong title="best">{}</strong>', 2: '<span class="second" title="second">{}</span>', 0: "{}"}
    rows = [
        arm_row(i, name, [marks[cell.place].format(escape(cell.text)) for cell in cells])
        for i, (name, cells) in enumerate(zip(numbers.rows, numbers.cells, strict=True))
    ]
    return (
        '<section id="summary"><h2>At a glance</h2><p class="reading">A row is an arm: one set of settings, with all '
        f"of its seeds. The best value of a column is bold, the second underlined; {escape(metric.called)} is "
        f"{'in percent, ' if metric.share else f'in {escape(metric.unit)}, ' if metric.unit else ''}"
        "given as mean ± standard deviation where there are several seeds.</p>"
        f"{table(['Arm', *numbers.columns], rows)}</section>"
    )


def _legend() -> str:
    return (
        '<nav id="arms" class="arms" aria-label="Show or hide arms"></nav>'
        '<noscript><p class="note">The figures below need JavaScript; nothing is loaded from anywhere.</p></noscript>'
    )


def _configuration(arms: Sequence[Arm]) -> str:
    settings = settings_of(arms)
    head = ["Setting", *(arm.label for arm in arms)]
    everything = table(head, [_setting(line) for line in settings], "config")
    opening = '<section id="configuration"><h2>Configuration</h2><p class="reading">'
    if len(arms) == 1:
        return f"{opening}Every setting of the run, with its defaults written out.</p>{everything}</section>"
    different = table(head, [_setting(line) for line in settings if line.differs], "config")
    return (
        f"{opening}Lines marked ≠ differ between the arms: only what differs can explain a difference.</p>{different}"
        f"<details><summary>All settings</summary>{everything}</details></section>"
    )


def _setting(line: SettingRow) -> str:
    cells = "".join(f"<td>{escape(value)}</td>" for value in line.values)
    mark = '<span class="differs" title="differs between the arms">≠</span> ' if line.differs else ""
    kind = ' class="differs-row"' if line.differs else ""
    return f'<tr{kind}><th scope="row">{mark}{escape(line.path)}</th>{cells}</tr>'


def _provenance(arms: Sequence[Arm], remarks: str) -> str:
    head = ("Folder", "State", "Seed", "Begun", "Commit", "Versions", "Remarks")
    rows = [_origin(run) for arm in arms for run in arm.runs]
    return (
        '<section id="runs"><h2>The runs</h2><p class="reading">Each line is one run folder; a run that did not '
        f"end has a part of the story only.</p>{remarks}{table(head, rows, 'config')}</section>"
    )


def _origin(run: Digest) -> str:
    versions = run.meta.get("versions", {})
    cells = (
        run.folder,
        run.state,
        "–" if run.seed is None else str(run.seed),
        _moment(run.meta.get("created")),
        str(run.meta.get("git") or "–")[:10],
        ", ".join(f"{name} {number}" for name, number in versions.items()) or "–",
        "; ".join(run.remarks) or "–",
    )
    return "<tr>" + "".join(f"<td>{escape(clip(cell, 160))}</td>" for cell in cells) + "</tr>"


def _moment(written: str | None) -> str:
    """A moment to the minute; what is none is shown as it stands."""
    try:
        return datetime.fromisoformat(written or "").strftime("%Y-%m-%d %H:%M %Z").strip()
    except (ValueError, OverflowError):
        return clip(written or "–", 30)


def _footer() -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<footer><p>Written by afbs on {now}. The file holds everything it shows; it loads nothing.</p></footer>"
