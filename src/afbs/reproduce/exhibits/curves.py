"""The figures that are drawn from curves: methods at K = 1, clustering or not, and the size of the buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.drawing import curves, drawn
from afbs.reproduce.exhibits.clustering import ARMS, compared
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.published import target
from afbs.reproduce.spec import METHODS, TITLES, Spec

_DAY = 86_400
_BUFFERS = (5, 10, 20, 30, 50)
_DATASETS = ("cifar10", "mnist", "sst2", "cifar100")
Panels = Mapping[tuple[str, int], Mapping[str, Spec]]


def _methods(choice: Choice) -> Panels:
    """The figure's runs are those of Table 2."""
    return {
        (dataset, 1): {TITLES[method]: Spec(dataset, 1, method) for method in choice.of(METHODS)}
        for dataset in _DATASETS
        if choice.takes(dataset, 1)
    }


def _clustering(choice: Choice) -> Panels:
    """The runs of Table 3. Which K the paper's figure shows it does not say."""
    columns = [(dataset, clusters) for dataset in ("cifar10", "cifar100") for clusters in (3, 5)]
    return {
        column: {
            "with clustering": compared(*column, ARMS["w/ clustering"]),
            "without clustering": compared(*column, ARMS["w/o clustering"]),
        }
        for column in columns
        if choice.takes(*column)
    }


def buffers(choice: Choice) -> Panels:
    """Of the sizes in the paper's figure only 10 and 50 are known."""
    return {
        ("cifar10", clusters): {
            f"C = {size}": Spec(
                "cifar10", clusters, "afbs", changes=() if size == 10 else (("algorithm.buffer_size", size),)
            )
            for size in _BUFFERS
        }
        for clusters in (5, 10)
        if choice.takes("cifar10", clusters)
    }


def _exhibit(name: str, title: str, panels: Any, notes: Sequence[str] = ()) -> Exhibit:
    def specs(choice: Choice) -> list[Spec]:
        wanted = [spec for arms in panels(choice).values() for spec in arms.values()]
        return list(choice.with_seeds(wanted))

    def page(choice: Choice, finds: Gathered) -> Page:
        found = {
            column: {arm: known(list(choice.with_seeds([spec])), finds) for arm, spec in arms.items()}
            for column, arms in panels(choice).items()
        }
        tables = [_table(column, arms) for column, arms in found.items()]
        shown = {column: arms for column, arms in found.items() if any(arms.values())}
        figures = (
            drawn(name, {_titled(*column): curves(arms, target(column[0])) for column, arms in shown.items()})
            if shown
            else {}
        )
        return made(name, title[0].upper() + title[1:], tables, specs(choice), finds, notes, figures)

    return Exhibit(name, title, specs, page)


def _table(column: tuple[str, int], arms: Mapping[str, Sequence[Evidence]]) -> Sheet:
    rows, values = [], []
    for arm, runs in arms.items():
        times = [run.time_to_target / _DAY for run in runs if run.time_to_target is not None]
        rows.append(
            [
                arm,
                spread([100 * run.best for run in runs], 2) if runs else "not run",
                spread([100 * run.level for run in runs], 2),
                spread([100 * run.final for run in runs], 2),
                spread(times, 2) if times else NONE,
                f"{fmean(run.versions for run in runs):,.0f}" if runs else NONE,
            ]
        )
        values += [
            {
                "arm": arm,
                "seed": run.seed,
                "highest": run.best,
                "last_third": round(run.level, 6),
                "final": run.final,
                "to_target": run.time_to_target,
            }
            for run in runs
        ]
    heading = ["", "highest, %", "last third, %", "final, %", f"days to {target(column[0]):.0%}", "versions"]
    return Sheet(f"{column[0]}-k{column[1]}", _titled(*column), heading, rows, values)


def _titled(dataset: str, clusters: int) -> str:
    return f"{TITLES[dataset]}, K = {clusters}"


FIG_CURVES = _exhibit("fig-curves", "accuracy against virtual time, seven methods, K = 1", _methods)
FIG_CLUSTERING = _exhibit(
    "fig-clustering", "accuracy against virtual time, AFBS with and without clustering", _clustering
)
FIG_BUFFER = _exhibit(
    "fig-buffer",
    "the size of the buffer, CIFAR-10, K = 5 and 10",
    buffers,
    (
        "A larger buffer also means fewer updates, and with a decay an update a learning rate that falls more slowly: "
        "the two cannot be told apart here.",
    ),
)
