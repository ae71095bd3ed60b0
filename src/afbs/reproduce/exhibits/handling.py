"""Table 5: the server's time for a full buffer. Milliseconds belong to a machine; ratios travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afbs.reproduce.beside import signed
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.published import figures
from afbs.reproduce.spec import CLUSTERS, TITLES

PARAMETERS = {"mnist": 61_706, "cifar10": 62_006, "cifar100": 69_656, "sst2": 3_200_258}
"""LeNet-5, and FastText with 50,002 vectors of 64 numbers."""
_STOCK = {"mnist": 1_663_370, "cifar10": 797_962}
"""FLGO's own networks."""
_FLUSHES = {"mnist": 400, "cifar10": 400, "cifar100": 400, "sst2": 200}


def _measure(choice: Choice) -> Mapping[str, Any]:
    from afbs.reproduce.handling import handled

    return {
        dataset: handled(PARAMETERS[dataset], *((60, 12) if dataset == "sst2" else (600, 120)), _FLUSHES[dataset])
        for dataset in _datasets(choice)
    }


def _datasets(choice: Choice) -> list[str]:
    return [dataset for dataset in CLUSTERS if not choice.datasets or dataset in choice.datasets]


def _page(choice: Choice, finds: Gathered) -> Page:
    paper = figures("5")
    rows, values = [], []
    for dataset in _datasets(choice):
        ours = finds.measured.get(dataset)
        for method in ("afbs", "ca2fl"):
            printed = (paper[method, dataset, 0] or 0.0) / (paper["fedbuff", dataset, 0] or 1.0)
            ratio = ours[method] / ours["fedbuff"] if ours else None
            gap = None if ratio is None else ratio - printed
            told = "not run" if ratio is None else f"{ratio:.3f}"
            times = f"{ours[method]:.3f} / {ours['fedbuff']:.3f} ms" if ours else NONE
            rows.append([TITLES[dataset], f"{TITLES[method]} ÷ FedBuff", f"{printed:.3f}", told, signed(gap, 3), times])
            values.append({"dataset": dataset, "method": method, "paper": printed, "ours": ratio, "difference": gap})
    heading = ["", "", "paper", "ours", "difference", "ours, medians"]
    table = Sheet("ratios", "The time for a full buffer of ten, K = 1", heading, rows, values)
    tables = [table, *([_sizes()] if not choice.datasets else [])]
    notes = (
        "Medians over at least 200 buffers that were already in memory, in one thread. CA2FL here adds up what "
        "changed; FLGO's adds up all clients' updates anew at every step.",
        "The paper's train time is what its graphics card needs to train ten clients: it says nothing about a method, "
        "and has no counterpart here.",
        "A server's time grows with the model, and LeNet-5 has as many parameters for MNIST as for CIFAR-10.",
    )
    return made("table5", "Table 5: the server's time for a full buffer", tables, (), finds, notes)


def _sizes() -> Sheet:
    """What the paper's times say of its networks."""
    paper, pair = figures("5"), ("mnist", "cifar10")
    rows, values = [], []
    for network, sizes in (("LeNet-5", PARAMETERS), ("FLGO's own", _STOCK)):
        first, second = (sizes[dataset] for dataset in pair)
        rows.append([f"parameters, {network}", f"{first:,}", f"{second:,}", f"{first / second:.2f}"])
        values.append({"what": network, "mnist": float(first), "cifar10": float(second)})
    for method in ("fedbuff", "afbs", "ca2fl"):
        one, other = (paper[method, dataset, 0] or 0.0 for dataset in pair)
        rows.append([f"the paper's time, {TITLES[method]}", f"{one:.2f} ms", f"{other:.2f} ms", f"{one / other:.2f}"])
        values.append({"what": method, "mnist": one, "cifar10": other})
    return Sheet(
        "sizes", "How large were the networks?", ["", *(TITLES[dataset] for dataset in pair), "ratio"], rows, values
    )


_TITLE = "the server's time for a full buffer, as ratios"
TABLE5 = Exhibit("table5", _TITLE, lambda choice: (), _page, measure=_measure, heeds=("--dataset",))
