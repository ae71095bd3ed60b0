"""From which weights did the paper's LeNet-5 start, or was it another network? FedAsync and FedFa tell.

With a decay an update their learning rate is gone after as much training as a hundred steps, so where they stop is
where a network gets in a hundred steps. That depends on little but its first weights. And AFBS for the paper's 20 days
tells how good a network is that has been trained for long.
"""

from __future__ import annotations

from itertools import product
from statistics import fmean

from afbs.reproduce.beside import BOTH, both_rows, spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Gathered, known
from afbs.reproduce.found import Evidence
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
_LONG = ("cifar10", "afbs")


def _spec(dataset: str, method: str, start: str) -> Spec:
    return Spec(dataset, 1, method, changes=STOCK[dataset] if start == _STOCK else STARTS[start])


def specs(choice: Choice) -> list[Spec]:
    """Most of the last one's time is FLGO's network."""
    wanted = [*product(_DATASETS, choice.of(_METHODS)), *([_LONG] if choice.of(_LONG[1:]) else [])]
    return list(choice.with_seeds([_spec(*case, start) for case in wanted for start in (*STARTS, _STOCK)]))


def sheets(choice: Choice, finds: Gathered) -> list[Sheet]:
    return [_at_once(choice, finds), *([_long(choice, finds)] if choice.of(_LONG[1:]) else [])]


def _at_once(choice: Choice, finds: Gathered) -> Sheet:
    rows, values = [], []
    for dataset, method in product(_DATASETS, choice.of(_METHODS)):
        runs = _runs(dataset, method, choice, finds)
        highest = {title: [100 * run.best for run in ours] for title, ours in runs.items()}
        paper = figures("2")[method, dataset, 1]
        told = [spread(ours, 2) if ours else "not run" for ours in highest.values()]
        rows.append([f"{TITLES[method]}, {TITLES[dataset]}", f"{paper:.2f}", *told])
        means = {title: round(fmean(ours), 4) if ours else None for title, ours in highest.items()}
        values.append({"method": method, "dataset": dataset, "paper": paper, **means})
    title = "Where those stop whose learning rate is gone at once: the highest accuracy from four starts, %, K = 1"
    return Sheet("starts", title, ["", "paper", *STARTS, _STOCK], rows, values)


def _long(choice: Choice, finds: Gathered) -> Sheet:
    dataset, method = _LONG
    rows, values = [], []
    for start, runs in _runs(dataset, method, choice, finds).items():
        told, numbers = both_rows(method, dataset, runs)
        rows.append([start, *told])
        values += [{"start": start, **table} for table in numbers]
    return Sheet(
        "long", f"{TITLES[method]} from the same starts, {TITLES[dataset]}, K = 1, 20 days", BOTH, rows, values
    )


def _runs(dataset: str, method: str, choice: Choice, finds: Gathered) -> dict[str, list[Evidence]]:
    return {
        start: known(list(choice.with_seeds([_spec(dataset, method, start)])), finds) for start in (*STARTS, _STOCK)
    }
