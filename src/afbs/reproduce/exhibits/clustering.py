"""Table 3: AFBS with and without clustering, on the same data."""

from __future__ import annotations

from statistics import fmean

from afbs.reproduce.beside import accuracy_row, remark, spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.published import figures
from afbs.reproduce.spec import TITLES, Spec, first_read, paper_days, tabled

WITHOUT = (("algorithm.clustering", False),)
ARMS = {"w/o clustering": WITHOUT, "w/ clustering": ()}
_HEADING = ["", "paper", "ours", "difference", "last third", "from torch's weights", ""]
_COLUMNS = (("cifar10", 3), ("cifar10", 5), ("mnist", 3), ("mnist", 5), ("cifar100", 3), ("cifar100", 5))


def specs(choice: Choice) -> list[Spec]:
    """The arm with clustering is a run of Table 2."""
    columns = [column for column in _COLUMNS if choice.takes(*column)]
    wanted = [tabled(*column, "afbs", changes) for column in columns for changes in ARMS.values()]
    return list(choice.with_seeds(wanted))


def beside(choice: Choice) -> list[Spec]:
    """The same from torch's own weights."""
    columns = [column for column in _COLUMNS if choice.takes(*column)]
    read = [first_read(*column, "afbs", changes) for column in columns for changes in ARMS.values()]
    return list(choice.with_seeds([spec for spec in read if spec]))


def _page(choice: Choice, finds: Gathered) -> Page:
    paper = figures("3")
    tables = []
    for dataset, clusters in sorted(column for column in _COLUMNS if choice.takes(*column)):
        rows, values = [], []
        for arm, changes in ARMS.items():
            runs = known(list(choice.with_seeds([tabled(dataset, clusters, "afbs", changes)])), finds)
            told, numbers = accuracy_row(paper[arm, dataset, clusters], [run.final for run in runs])
            late = [100 * accuracy for run in runs for accuracy in run.late]
            first = first_read(dataset, clusters, "afbs", changes)
            others = known(list(choice.with_seeds([first])), finds) if first else []
            before = spread([100 * run.final for run in others], 2)
            rows.append([arm, *told, spread(late, 2), before, remark(runs, paper_days(dataset))])
            values.append(
                {
                    "dataset": dataset,
                    "clusters": clusters,
                    "arm": arm,
                    **numbers,
                    "last_third": round(fmean(late), 4) if late else None,
                    "remark": rows[-1][-1],
                }
            )
        title = f"{TITLES[dataset]}, K = {clusters}, %"
        tables.append(Sheet(f"{dataset}-k{clusters}", title, _HEADING, rows, values))
    title = "Table 3: the final accuracy of AFBS with and without clustering"
    notes = (
        "The last third: the mean ± the standard deviation of all evaluations in it. Where models sway that much, a "
        "final accuracy is one draw.",
    )
    return made("table3", title, tables, specs(choice), finds, notes)


TABLE3 = Exhibit("table3", "the final accuracy of AFBS with and without clustering", specs, _page, beside=beside)
