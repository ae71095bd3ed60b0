"""Runs what plans need, each run once however many of them need it, and writes what was found."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from afbs.record.reader import is_done, is_run
from afbs.reproduce import found as cells
from afbs.reproduce.choice import Choice
from afbs.reproduce.found import Found
from afbs.reproduce.page import Page, write
from afbs.reproduce.plans import PLANS, Plan
from afbs.reproduce.spec import Spec
from afbs.sweeps import Sweep

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
    failed: Mapping[str, str] = {}
    specs = wanted(plans, choice)
    if specs:
        sweep = Sweep("reproduce", [spec.cell for spec in specs], cores=cores)
        failed = sweep.run(folder, progress=progress, on_note=on_note).failed
    return collected(names, choice, folder=folder, results=results), failed


def collected(names: Sequence[str], choice: Choice, *, folder: Path = FOLDER, results: Path = RESULTS) -> list[Page]:
    """The same of the runs that have ended, without running any; what is committed counts as well."""
    plans = [PLANS[name] for name in names]
    finds = {spec.name: one for spec in wanted(plans, choice) if (one := _find(spec, folder, results)) is not None}
    pages = []
    for plan in plans:
        page = plan.page(choice, finds)
        write(page, results / f"{plan.name}{choice.suffix}", _command(plan, choice))
        pages.append(page)
    return pages


def wanted(plans: Sequence[Plan], choice: Choice) -> list[Spec]:
    """Every run that some plan needs, once."""
    return list(dict.fromkeys(spec for plan in plans for spec in plan.specs(choice)))


def _find(spec: Spec, folder: Path, results: Path) -> Found | None:
    run, committed = folder / "cells" / spec.cell.id, results / "cells" / spec.name
    if is_run(run) and is_done(run) and not cells.is_of(committed, run):
        cells.write(cells.found(spec.cell, run), cells.settings(run), committed)
    return cells.read(committed) if cells.is_there(committed) else None


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
