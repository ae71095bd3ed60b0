"""Runs what exhibits need, each run once however many of them need it, and writes what was found."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afbs.record.reader import is_done, is_run
from afbs.record.writer import replace_file
from afbs.reproduce import found as cells
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import EXHIBITS, Exhibit, Gathered
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import Page, overview, write
from afbs.reproduce.spec import Spec
from afbs.sweeps import Sweep
from afbs.types import UserError

FOLDER = Path("sweeps/reproduce")
RESULTS = Path("results")


def reproduced(
    names: Sequence[str],
    choice: Choice,
    *,
    folder: Path = FOLDER,
    results: Path = RESULTS,
    cores: int = 0,
    again: bool = False,
    progress: bool = True,
    on_note: Callable[[str], None] | None = None,
) -> tuple[list[Page], Mapping[str, str]]:
    """The pages of these exhibits, after running what they need; and why runs failed, by their names.

    A run that `results` already tells of is not done once more, unless `again`.
    """
    exhibits = [EXHIBITS[name] for name in names]
    failed: dict[str, str] = {}

    def run(specs: Sequence[Spec]) -> None:
        missing = [spec for spec in specs if again or not cells.is_settled(spec.cell, _committed(spec, results))]
        if on_note is not None and len(missing) < len(specs):
            on_note(f"{len(specs) - len(missing)} of {len(specs)} runs are in {results} already.")
        if missing:
            sweep = Sweep("reproduce", [spec.cell for spec in missing], cores=cores)
            failed.update(sweep.run(folder, progress=progress, on_note=on_note).failed)

    for exhibit in exhibits:
        if exhibit.measure is not None:
            _keep(exhibit.measure(choice), _place(exhibit, choice, results))
    specs: list[Spec] = []
    following = wanted(exhibits, choice)
    while following:
        run(following)
        specs += following
        found = _finds(specs, folder, results)
        more = dict.fromkeys(spec for exhibit in exhibits for spec in exhibit.then(choice, found))
        following = [spec for spec in more if spec not in specs]
    return collected(names, choice, folder=folder, results=results), failed


def collected(names: Sequence[str], choice: Choice, *, folder: Path = FOLDER, results: Path = RESULTS) -> list[Page]:
    """The same of the runs that have ended, without running any; what is committed counts as well."""
    pages = []
    for name in names:
        exhibit = EXHIBITS[name]
        finds = _finds([*wanted([exhibit], choice), *exhibit.beside(choice)], folder, results)
        while more := [spec for spec in exhibit.then(choice, finds) if spec.name not in finds.runs]:
            found = _finds(more, folder, results)
            finds = replace(finds, runs={**finds.runs, **found.runs})
            if not found.runs:
                break
        measured = _kept(_place(exhibit, choice, results))
        page = exhibit.page(choice, replace(finds, measured=measured))
        write(page, _place(exhibit, choice, results), _command(exhibit, choice))
        pages.append(page)
    overview(results)
    return pages


def wanted(exhibits: Sequence[Exhibit], choice: Choice) -> list[Spec]:
    """Every run that some exhibit needs, once."""
    return list(dict.fromkeys(spec for exhibit in exhibits for spec in exhibit.specs(choice)))


def _finds(specs: Sequence[Spec], folder: Path, results: Path) -> Gathered:
    return Gathered({spec.name: one for spec in specs if (one := _find(spec, folder, results)) is not None})


def _find(spec: Spec, folder: Path, results: Path) -> Evidence | None:
    run, committed = folder / "cells" / spec.cell.id, _committed(spec, results)
    if is_run(run) and is_done(run) and not cells.is_of(committed, run):
        cells.write(cells.found(spec.cell, run), cells.settings(run), committed)
    return cells.read(committed) if cells.is_there(committed) else None


def _committed(spec: Spec, results: Path) -> Path:
    return results / "cells" / spec.name


def _place(exhibit: Exhibit, choice: Choice, results: Path) -> Path:
    return results / f"{exhibit.name}{choice.suffix}"


def _keep(measured: Mapping[str, Any], place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        replace_file(place / "measured.json", (json.dumps(measured, indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"`--results`: {place} cannot be written: {error.strerror}.") from error


def _kept(place: Path) -> Mapping[str, Any]:
    try:
        kept: Mapping[str, Any] = json.loads((place / "measured.json").read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{place / 'measured.json'} is damaged: {error}. Without it, it is measured again.") from None
    return kept


def _command(exhibit: Exhibit, choice: Choice) -> str:
    words = ["afbs", "reproduce", exhibit.name]
    for option, values in (
        ("--dataset", choice.datasets),
        ("--clusters", choice.clusters),
        ("--methods", choice.methods),
        ("--seeds", choice.seeds),
    ):
        words += [option, ",".join(map(str, values))] if values else []
    words += ["--virtual-days", f"{choice.days:g}"] if choice.days else []
    return shlex.join(words)
