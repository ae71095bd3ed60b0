"""Runs what plans need, each run once however many of them need it, and writes what was found."""

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
from afbs.reproduce.found import Found
from afbs.reproduce.page import Page, write
from afbs.reproduce.plans import PLANS, Finds, Plan
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
    progress: bool = True,
    on_note: Callable[[str], None] | None = None,
) -> tuple[list[Page], Mapping[str, str]]:
    """The pages of these plans, after running what they need; and why runs failed, by their names."""
    plans = [PLANS[name] for name in names]
    failed: dict[str, str] = {}

    def run(specs: Sequence[Spec]) -> None:
        if specs:
            sweep = Sweep("reproduce", [spec.cell for spec in specs], cores=cores)
            failed.update(sweep.run(folder, progress=progress, on_note=on_note).failed)

    for plan in plans:
        if plan.measure is not None:
            _keep(plan.measure(choice), _place(plan, choice, results))
    first = wanted(plans, choice)
    run(first)
    found = _finds(first, folder, results)
    run(list(dict.fromkeys(spec for plan in plans for spec in plan.then(choice, found))))
    return collected(names, choice, folder=folder, results=results), failed


def collected(names: Sequence[str], choice: Choice, *, folder: Path = FOLDER, results: Path = RESULTS) -> list[Page]:
    """The same of the runs that have ended, without running any; what is committed counts as well."""
    pages = []
    for name in names:
        plan = PLANS[name]
        finds = _finds(wanted([plan], choice), folder, results)
        more = _finds(plan.then(choice, finds), folder, results)
        measured = _kept(_place(plan, choice, results))
        page = plan.page(choice, replace(finds, runs={**finds.runs, **more.runs}, measured=measured))
        write(page, _place(plan, choice, results), _command(plan, choice))
        pages.append(page)
    return pages


def wanted(plans: Sequence[Plan], choice: Choice) -> list[Spec]:
    """Every run that some plan needs, once."""
    return list(dict.fromkeys(spec for plan in plans for spec in plan.specs(choice)))


def _finds(specs: Sequence[Spec], folder: Path, results: Path) -> Finds:
    return Finds({spec.name: one for spec in specs if (one := _find(spec, folder, results)) is not None})


def _find(spec: Spec, folder: Path, results: Path) -> Found | None:
    run, committed = folder / "cells" / spec.cell.id, results / "cells" / spec.name
    if is_run(run) and is_done(run) and not cells.is_of(committed, run):
        cells.write(cells.found(spec.cell, run), cells.settings(run), committed)
    return cells.read(committed) if cells.is_there(committed) else None


def _place(plan: Plan, choice: Choice, results: Path) -> Path:
    return results / f"{plan.name}{choice.suffix}"


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


def _command(plan: Plan, choice: Choice) -> str:
    words = ["afbs", "reproduce", plan.name]
    for option, values in (
        ("--dataset", choice.datasets),
        ("--clusters", choice.clusters),
        ("--methods", choice.methods),
        ("--seeds", choice.seeds),
    ):
        words += [option, ",".join(map(str, values))] if values else []
    words += ["--virtual-days", f"{choice.days:g}"] if choice.days else []
    return shlex.join(words)
