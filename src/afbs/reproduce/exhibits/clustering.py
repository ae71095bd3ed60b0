"""Table 3: AFBS with and without clustering, on the same data."""

from __future__ import annotations

from statistics import fmean

from afbs.reproduce.beside import accuracy_row, remark, spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.published import figures
from afbs.reproduce.spec import TITLES, TO_THE_END, Changes, Spec, paper_days

WITHOUT = (("algorithm.clustering", False),)
ARMS = {"w/o clustering": WITHOUT, "w/ clustering": ()}
_HEADING = ["", "paper", "ours", "difference", "last third", ""]
_COLUMNS = (("cifar10", 3), ("cifar10", 5), ("mnist", 3), ("mnist", 5), ("cifar100", 3), ("cifar100", 5))


def compared(dataset: str, clusters: int, changes: Changes) -> Spec:
    """One arm. On CIFAR-10 models still sway by points where others stand still; with the last hundredth of the
    learning rate they come to rest, as the paper's have. Those runs go on to the last day.

    The others are runs of Table 2, if they have clustering.
    """
    return Spec(dataset, clusters, "afbs", changes=(*changes, TO_THE_END) if dataset == "cifar10" else changes)


def specs(choice: Choice) -> list[Spec]:
    columns = [column for column in _COLUMNS if choice.takes(*column)]
    wanted = [compared(*column, changes) for column in columns for changes in ARMS.values()]
    return list(choice.with_seeds(wanted))


def _page(choice: Choice, finds: Gathered) -> Page:
    paper = figures("3")
    tables = []
    for dataset, clusters in sorted(column for column in _COLUMNS if choice.takes(*column)):
        rows, values = [], []
        for arm, changes in ARMS.items():
            runs = known(list(choice.with_seeds([compared(dataset, clusters, changes)])), finds)
            told, numbers = accuracy_row(paper[arm, dataset, clusters], [run.final for run in runs])
            late = [100 * accuracy for run in runs for accuracy in run.late]
            rows.append([arm, *told, spread(late, 2), remark(runs, paper_days(dataset))])
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


TABLE3 = Exhibit("table3", "the final accuracy of AFBS with and without clustering", specs, _page)
