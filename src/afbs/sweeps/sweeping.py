"""A list of named configurations as one resumable whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from afbs.config import Config, load
from afbs.experiment import Interrupted
from afbs.experiment.result import Result
from afbs.sweeps.cells import Cell
from afbs.sweeps.conducting import Conductor, Runner
from afbs.sweeps.display import counted, displayed
from afbs.sweeps.ledger import Ledger, claim, folder_of
from afbs.sweeps.local import LocalRunner
from afbs.sweeps.outcome import Measure, Outcome, measures_of
from afbs.sweeps.results import refuse_place, write
from afbs.sweeps.settings import Described, described, expanded
from afbs.types import UserError


class SweepInterrupted(Interrupted):
    """The sweep was stopped by its user. Every cell under way has been saved."""

    def __init__(self, folder: Path, done: int, total: int):
        Exception.__init__(self, f"Stopped: {done} of {total} cells are done. The same command continues.")
        self.folder = folder


@dataclass(frozen=True)
class Sweep:
    """Cells under names. In Python: `Sweep("mine", {"a": {...tables...}, "b": "file.toml"}).run("sweeps/mine")`.

    A cell is anything that `afbs.run` takes; or a `Cell`, which says its arm itself. Otherwise cells that differ by
    their seed alone are one arm, called like the first of them.
    """

    name: str
    cells: Sequence[Cell]
    baseline: str | None = None
    metric: str = "final"
    test: Literal["t", "wilcoxon"] = "t"
    columns: Mapping[str, Measure] = field(default_factory=dict)
    cores: int = 0
    runner: Literal["local", "ray"] = "local"
    address: str = ""

    def __init__(
        self,
        name: str,
        cells: Mapping[str, Config | Mapping[str, Any] | str | Path] | Sequence[Cell],
        *,
        baseline: str | None = None,
        metric: str = "final",
        test: Literal["t", "wilcoxon"] = "t",
        columns: Mapping[str, Measure] | None = None,
        cores: int = 0,
        runner: Literal["local", "ray"] = "local",
        address: str = "",
    ):
        made = _cells(cells) if isinstance(cells, Mapping) else tuple(cells)
        if not made:
            raise UserError("`sweep`: there are no cells; at least one is needed.")
        arms = dict.fromkeys(cell.arm for cell in made)
        if baseline and baseline not in arms:
            named = "; ".join(map(repr, arms))
            raise UserError(f"`sweep.baseline`: there is no arm {baseline!r}; there are: {named}.")
        watched = {cell.config.task.metrics[0].name: cell for cell in reversed(made)}
        if len(watched) > 1:
            about = " and ".join(f"{cell.name!r} about {name!r}" for name, cell in reversed(watched.items()))
            raise UserError(f"`sweep`: its runs cannot be compared, {about}.")
        known = {"best", "final", *measures_of(made[0].config.task.metrics[0]), *(columns or {})}
        if metric not in known:
            raise UserError(f"`sweep.metric`: there is no column {metric!r}; there are: {', '.join(sorted(known))}.")
        for key, value in {
            "name": name,
            "cells": tuple({cell.id: cell for cell in made}.values()),
            "baseline": baseline or None,
            "metric": metric,
            "test": test,
            "columns": dict(columns or {}),
            "cores": cores,
            "runner": runner,
            "address": address,
        }.items():
            object.__setattr__(self, key, value)

    def run(
        self,
        folder: str | Path | None = None,
        *,
        results: str | Path | None = None,
        progress: bool = True,
        on_note: Callable[[str], None] | None = None,
        enough: Callable[[Cell, Path], bool] | None = None,
    ) -> Outcome:
        """Carry out what is not done yet, in `folder` (`sweeps/<name>`), and give the table of everything.

        A cell that fails does not stop the others; `failed` names it. With `results`, what is small enough to be
        committed is written there as well. A cell under way is given up when `enough`, told its folder, says so.
        """
        place = Path(folder) if folder else folder_of(self.name)
        if results is not None:
            refuse_place(Path(results), place)
        with Ledger(place, self.name, self.cells) as ledger:
            done = [cell for cell in self.cells if ledger.is_done(cell)]
            if on_note:
                before = f"{len(done)} of {len(self.cells)} cells were done before"
                on_note(f"{before if done else counted(len(self.cells))}, in {place}.")
            runner = self._runner()
            cores = self.cores or runner.cores
            with displayed(self.name, cores, progress) as display:
                conductor = Conductor(self.cells, ledger, runner, cores, display, enough)
                try:
                    complete = conductor.go()
                except KeyboardInterrupt:
                    complete = False
                display(conductor.state())
            if not complete:
                done = [cell for cell in self.cells if ledger.is_done(cell)]
                raise SweepInterrupted(place, len(done), len(self.cells))
            failed = {cell.name: ledger.failed[cell.id] for cell in self.cells if cell.id in ledger.failed}
        outcome = self.outcome(place, failed)
        if results is not None:
            write(outcome, Path(results))
        return outcome

    def outcome(self, folder: str | Path, failed: Mapping[str, str] | None = None) -> Outcome:
        """What the cells in a folder have found so far, without running any."""
        facts = (self.baseline, self.metric, self.test, self.columns)
        return Outcome(self.name, Path(folder), self.cells, failed or {}, *facts)

    def _runner(self) -> Runner:
        if self.runner == "ray":
            from afbs.sweeps.clustered import RayRunner

            return RayRunner(self.address)
        return LocalRunner()


def sweep(
    source: Mapping[str, Any] | str | Path,
    *,
    folder: str | Path | None = None,
    results: str | Path | None = None,
    progress: bool = True,
    cores: int | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Outcome:
    """Carry out the sweep that a configuration's table `[sweep]` describes; again, and it goes on where it stopped.

    With a table `[sweep.search]` settings are searched first.
    """
    what = described(source, {path: value for path, value in overrides.items() if path.startswith("sweep.")})
    overrides = {path: value for path, value in overrides.items() if not path.startswith("sweep.")}
    place = Path(folder) if folder else folder_of(what.settings.name)
    if results is not None:
        refuse_place(Path(results), place)
    whole = planned(what, overrides, cores)
    if what.settings.search:
        whole = replace(whole, cells=_searched(what, overrides, place, whole, progress))
    outcome = whole.run(place, progress=progress, on_note=on_note)
    if what.settings.search:
        outcome = replace(outcome, search=json.loads((place / "search" / "trials.json").read_text()))
    if results is not None:
        write(outcome, Path(results))
    return outcome


def planned(what: Described, overrides: Mapping[str, Any] | None = None, cores: int | None = None) -> Sweep:
    """The sweep that a table describes. Settings that are to be searched are as they were written."""
    chosen, cells = what.settings, expanded(what, overrides)
    if chosen.search:
        from afbs.sweeps.searching import with_tuned

        cells = with_tuned(cells, {})
    return Sweep(
        chosen.name,
        cells,
        baseline=chosen.baseline,
        metric=chosen.metric,
        test=chosen.test,
        cores=chosen.cores if cores is None else cores,
        runner=chosen.runner,
        address=chosen.address,
    )


def _searched(
    what: Described, overrides: Mapping[str, Any], place: Path, whole: Sweep, progress: bool
) -> Sequence[Cell]:
    from afbs.sweeps.searching import searched

    def run(batch: Sequence[Cell], folder: Path, enough: Callable[[Cell, Path], bool]) -> Mapping[str, Result]:
        name = f"{whole.name}, search"
        trials = Sweep(name, batch, cores=whole.cores, runner=whole.runner, address=whole.address)
        return trials.run(folder, progress=progress, enough=enough).results

    with claim(place / "search", place / "search.lock"):
        return searched(what, overrides, place, run)


def _cells(given: Mapping[str, Config | Mapping[str, Any] | str | Path]) -> tuple[Cell, ...]:
    arms: dict[str, str] = {}
    made = []
    for name, source in given.items():
        try:
            config = load(source, {"name": name})
        except UserError as error:
            raise UserError(f"Cell {name!r}: {error}") from None
        but_seed = Cell("", load(config, {"run.seed": 0}), "").digest
        made.append(Cell(name, config, arms.setdefault(but_seed, name)))
    return tuple(made)
