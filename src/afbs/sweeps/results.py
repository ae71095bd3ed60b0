"""What is left of a sweep when its run folders are gone: tables, curves, settings and digests, small enough to commit.

table.csv, table.md   a row an arm
cells.csv             a row a cell, with the sha256 of its final model
curves.csv            a row an evaluation
sweep.json            how arms were compared, versions, digests of data and settings
trials.json           what a search tried, and what it found best for each arm
cells/<id>/           a run folder without its orders and steps; `afbs report` reads it like any other
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from afbs.experiment.result import Result
from afbs.metrics import ACCURACY
from afbs.record.writer import replace_file
from afbs.sweeps.outcome import TIME, Outcome, measures_of
from afbs.sweeps.statistics import Row
from afbs.types import UserError

_MOST_CLIENTS = 2000
"""More clients than this are not listed: a million of them would not be small."""
_LIGHT = ("config.toml", "result.json", "meta.json", "events.jsonl")
"""What is kept of a run folder."""
_BOOKKEEPING = ("wall", "folder")
"""Columns that differ between two sweeps that found the same."""


def refuse_place(results: Path, sweep: Path) -> None:
    """Refuses a place for results that cannot be one, before anything is run. Results among run folders would replace
    them."""
    place, folder = results.resolve(), sweep.resolve()
    swept = next((path for path in (place, *place.parents) if path == folder or (path / "sweep.lock").exists()), None)
    if swept is not None or place in folder.parents:
        where = f"in the folder of a sweep, {swept}" if swept else f"around the sweep's folder, {sweep}"
        raise UserError(f"`--results` {results} is {where}: results need a folder of their own, as in results/mine.")
    nearest = next(path for path in (place, *place.parents) if path.exists())
    if not nearest.is_dir():
        raise UserError(f"`--results` {results} must be a folder, but {nearest} is a file.")


def write(outcome: Outcome, folder: Path) -> None:
    """Writes or replaces the files; equal sweeps on equal machines write equal tables, curves and digests."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / "table.csv", outcome.table.to_csv(lineterminator="\n"))
        _put(folder / "table.md", markdown(outcome))
        _put(folder / "cells.csv", outcome.cells.drop(columns=list(_BOOKKEEPING)).to_csv(lineterminator="\n"))
        _put(folder / "curves.csv", _curves(outcome))
        if outcome.search:
            _put(folder / "trials.json", _text(outcome.search))
        _clear(outcome, folder)
        _put(folder / "sweep.json", _text(_facts(outcome)))
        for key, result in outcome.results.items():
            _light(result, folder / "cells" / key)
    except OSError as error:
        raise UserError(f"`--results`: {folder} cannot be written: {error.strerror}.") from error


def markdown(outcome: Outcome) -> str:
    """The table for people: mean ± standard deviation over seeds, ranks, and the test against the baseline."""
    heading, rows = grid(outcome)
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def grid(outcome: Outcome, measures: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
    """The table as text: a heading and rows. Columns in which nobody has anything are left out; arms of which no cell
    ended because they failed are not."""
    columns: dict[str, list[str]] = {"": [], "seeds": []}
    found = {measure: outcome.rows(measure) for measure in measures or outcome.measures}
    for arm, row in outcome.table.iterrows():
        columns[""].append(str(arm))
        columns["seeds"].append(str(int(row["seeds"])))
        for measure, by_arm in found.items():
            unit = _unit(outcome, measure)
            cell = _spread(unit, by_arm[str(arm)], int(row["seeds"]))
            columns.setdefault(f"{_called(outcome, measure)}{unit[1]}", []).append(cell)
        columns.setdefault("rank", []).append(_number(row["rank"], ".2f"))
        if outcome.baseline:
            unit = _unit(outcome, outcome.chosen)
            against = f"vs {outcome.baseline}{unit[1]}"
            columns.setdefault(against, []).append(_difference(unit, row["difference"]))
            columns.setdefault("p", []).append(_number(row["p"], ".3g"))
    kept = {name: values for name, values in columns.items() if any(value != "–" for value in values)}
    lines = {line[0]: list(line) for line in zip(*kept.values(), strict=True)}
    failed = {cell.arm for cell in outcome.everybody if cell.name in outcome.failed}
    for arm in failed - set(lines):
        lines[arm] = [arm, "failed", *["–"] * (len(kept) - 2)]
    return list(kept), [lines[arm] for arm in dict.fromkeys(cell.arm for cell in outcome.everybody) if arm in lines]


def _called(outcome: Outcome, measure: str) -> str:
    best, final, time = measures_of(outcome.watched)
    about = "" if outcome.watched == ACCURACY else f" {outcome.watched.called}"
    return {best: f"best{about}", final: f"final{about}", time: "to target"}.get(measure, measure)


def _spread(unit: _Unit, row: Row, seeds: int) -> str:
    """A target may not have been reached with every seed: then the mean is of fewer, and that is said."""
    if not math.isfinite(row.mean):
        return "–"
    scale, _, form = unit
    spread = f" ± {row.deviation * scale:{form}}" if math.isfinite(row.deviation) else ""
    fewer = f" ({row.number}/{seeds})" if row.number < seeds else ""
    return f"{row.mean * scale:{form}}{spread}{fewer}"


def _difference(unit: _Unit, value: float) -> str:
    scale, _, form = unit
    return f"{value * scale:+{form}}" if math.isfinite(value) else "–"


_Unit: TypeAlias = tuple[float, str, str]
"""By what a number is multiplied, its unit as the end of a heading, and how it is written."""


def _unit(outcome: Outcome, measure: str) -> _Unit:
    metric = outcome.watched
    if measure == TIME:
        return 1 / 86_400, ", days", ".2f"
    if measure not in measures_of(metric):
        return 1.0, "", ".4f"
    return (100.0, ", %", ".2f") if metric.share else (1.0, f", {metric.unit}" if metric.unit else "", ".4g")


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _curves(outcome: Outcome) -> str:
    import pandas as pd

    parts = []
    for cell in outcome.everybody:
        if cell.id in outcome.results:
            history = outcome.results[cell.id].history.drop(columns=["wall"])
            parts.append(history.assign(cell=cell.id).set_index("cell"))
    return str(pd.concat(parts).to_csv(lineterminator="\n")) if parts else ""


def _facts(outcome: Outcome) -> dict[str, Any]:
    cells: dict[str, dict[str, Any]] = {}
    for cell in outcome.everybody:
        if cell.id not in outcome.results:
            cells[cell.id] = {"name": cell.name, "failed": outcome.failed.get(cell.name, "It has not ended.")}
            continue
        record = outcome.results[cell.id].record
        cells[cell.id] = {
            "name": cell.name,
            "arm": cell.arm,
            "seed": cell.seed,
            "settings": cell.digest,
            "data": record.meta.get("data"),
            "model_sha256": (record.result or {}).get("sha256"),
            "versions": record.meta.get("versions"),
        }
    return {
        "name": outcome.name,
        "baseline": outcome.baseline,
        "metric": outcome.chosen,
        "test": outcome.test,
        "cells": cells,
    }


def _clear(outcome: Outcome, folder: Path) -> None:
    """Cells that this sweep wrote here before and has no more are removed; anything else is left alone."""
    try:
        before = json.loads((folder / "sweep.json").read_text())
        gone = set(before["cells"]) - set(outcome.results) if before["name"] == outcome.name else set()
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in (folder / "cells").glob("*"):
        ours = path.name in gone and path.is_dir() and not path.is_symlink()
        if ours and {file.name for file in path.iterdir()} <= set(_LIGHT):
            shutil.rmtree(path)


def _light(result: Result, folder: Path) -> None:
    """A run folder with its evaluations alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.toml", "result.json"):
        shutil.copyfile(result.folder / name, folder / name)
    meta = json.loads((result.folder / "meta.json").read_text())
    if len((meta.get("clients") or {}).get("id", ())) > _MOST_CLIENTS:
        meta = {key: value for key, value in meta.items() if key not in ("clients", "labels", "true_clusters")}
    _put(folder / "meta.json", _text({**meta, "light": True}))
    with (result.folder / "events.jsonl").open() as events:
        kept = [json.loads(line) for line in events if line.startswith(('{"event":"eval"', '{"event":"end"'))]
    evaluations = [line for line in kept if line["event"] == "eval"]
    for line in evaluations[:-1]:
        line.pop("per_class", None)
    _put(folder / "events.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))


def _text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _put(path: Path, text: str) -> None:
    replace_file(path, text.encode())
