"""From which weights did the paper's LeNet-5 start, or was it another network? FedAsync and FedFa tell.

With a decay an update their learning rate is gone after as much training as a hundred steps, so where they stop is
where a network gets in a hundred steps. That depends on little but its first weights.
"""

from __future__ import annotations

from itertools import product
from statistics import fmean

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Gathered, known
from afbs.reproduce.page import Sheet
from afbs.reproduce.published import figures
from afbs.reproduce.spec import GLOROT, STOCK, TITLES, Changes, Spec

STARTS: dict[str, Changes] = {
    "torch's weights": (),
    "Glorot and Bengio's": (GLOROT,),
    "He et al.'s": (("model.start", "kaiming"),),
}
_STOCK = "FLGO's own network"
_DATASETS, _METHODS = ("mnist", "cifar10"), ("fedasync", "fedfa")


def _spec(dataset: str, method: str, start: str) -> Spec:
    return Spec(dataset, 1, method, changes=STOCK[dataset] if start == _STOCK else STARTS[start])


def specs(choice: Choice) -> list[Spec]:
    wanted = product(_DATASETS, choice.of(_METHODS), (*STARTS, _STOCK))
    return list(choice.with_seeds([_spec(*each) for each in wanted]))


def sheet(choice: Choice, finds: Gathered) -> Sheet:
    rows, values = [], []
    for dataset, method in product(_DATASETS, choice.of(_METHODS)):
        runs = {
            start: known(list(choice.with_seeds([_spec(dataset, method, start)])), finds) for start in (*STARTS, _STOCK)
        }
        highest = {title: [100 * run.best for run in ours] for title, ours in runs.items()}
        paper = figures("2")[method, dataset, 1]
        told = [spread(ours, 2) if ours else "not run" for ours in highest.values()]
        rows.append([f"{TITLES[method]}, {TITLES[dataset]}", f"{paper:.2f}", *told])
        means = {title: round(fmean(ours), 4) if ours else None for title, ours in highest.items()}
        values.append({"method": method, "dataset": dataset, "paper": paper, **means})
    title = "Where those stop whose learning rate is gone at once: the highest accuracy from four starts, %, K = 1"
    return Sheet("starts", title, ["", "paper", *STARTS, _STOCK], rows, values)
