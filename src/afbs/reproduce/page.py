"""What an exhibit shows: tables, figures and remarks, for a terminal, a page and a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afbs.record.writer import replace_file
from afbs.types import UserError

NONE = "–"


@dataclass(frozen=True)
class Sheet:
    """Rows of text. `values` are the same as numbers, for a CSV file; None is an empty field."""

    name: str
    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    values: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Page:
    """Everything about one of the paper's tables or figures. `runs` are the names of those it was made of."""

    name: str
    title: str
    tables: Sequence[Sheet]
    notes: Sequence[str] = ()
    figures: Mapping[str, bytes] = field(default_factory=dict)
    runs: Sequence[str] = ()
    missing: int = 0


def write(page: Page, folder: Path, command: str) -> None:
    """`README.md` for people, a CSV file a table, the figures, and `about.json`: the command and which runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / "README.md", markdown(page, command))
        for table in page.tables:
            _put(folder / f"{table.name}.csv", _csv(table.values))
        for name, content in page.figures.items():
            replace_file(folder / name, content)
        about = {"command": command, "missing": page.missing, "runs": list(page.runs)}
        _put(folder / "about.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(f"`--results`: {folder} cannot be written: {error.strerror}.") from error


def overview(results: Path) -> None:
    """`README.md` of all results: what there is, how far it has come, and the command that goes on with it."""
    rows = []
    for path in sorted(results.glob("*/about.json")):
        about = json.loads(path.read_text())
        ended, name = len(about["runs"]), path.parent.name
        measured = "measured" if (path.parent / "measured.json").exists() else "not measured yet"
        state = f"{ended} of {ended + about['missing']} runs" if ended + about["missing"] else measured
        rows.append(f"| [{name}]({name}/README.md) | {state} | `{about['command']}` |\n")
    head = "# What was reproduced\n\n| | have ended | made by |\n|---|---|---|\n"
    _put(results / "README.md", head + "".join(rows))


def markdown(page: Page, command: str) -> str:
    runs = f" Of {len(page.runs) + page.missing} runs {len(page.runs)} have ended; they are in `../cells/`."
    parts = [f"# {page.title}\n", f"Made by `{command}`.{runs if page.runs or page.missing else ''}\n"]
    for table in page.tables:
        lines = [table.heading, ["---", *["---:"] * (len(table.heading) - 1)], *table.rows]
        parts.append(f"## {table.title}\n")
        parts.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    parts += [f"![{name}]({name})\n" for name in page.figures if name.endswith(".svg")]
    parts += ["".join(f"- {note}\n" for note in page.notes)] if page.notes else []
    return "\n".join(parts)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _put(path: Path, text: str) -> None:
    replace_file(path, text.encode())
