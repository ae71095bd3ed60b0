"""Every figure that the paper prints, and what was measured in its place, or why nothing was."""

from __future__ import annotations

from afbs.reproduce.beside import accuracy_row, time_row
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import clustering, main
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.published import Figure, published
from afbs.reproduce.spec import TITLES, Spec

_REASONS = {
    "2_commented_out_in_source": "commented out in the paper's source, and never explained; perhaps AFBS without "
    "second chances, which is ablation (f)",
    "target_accuracy": "a setting, which is ours as well",
    "train_time_ms": "what a graphics card needs to train ten clients: nothing about a method, no counterpart here",
    "handle_time_ms": "milliseconds belong to a machine; the ratios to FedBuff are in Table 5",
}


def neighbour(figure: Figure) -> Spec | None:
    """The run whose figure stands beside this one."""
    if figure.table in ("2", "4") and figure.method != "target":
        return Spec(figure.dataset, figure.clusters, figure.method)
    if figure.table == "3":
        return clustering.compared(figure.dataset, figure.clusters, clustering.ARMS[figure.method])
    return None


def reason(figure: Figure) -> str:
    """Why there is no such run; empty if there is one."""
    return "" if neighbour(figure) else _REASONS[figure.table if figure.table in _REASONS else figure.metric]


def specs(choice: Choice) -> list[Spec]:
    return list(dict.fromkeys((*main.specs(choice), *clustering.specs(choice))))


def _page(choice: Choice, finds: Gathered) -> Page:
    rows, values = [], []
    for figure in published():
        told = _told(figure, neighbour(figure), choice, finds)
        dataset, method = TITLES[figure.dataset], TITLES.get(figure.method, figure.method)
        clusters = str(figure.clusters or NONE)
        rows.append([figure.table.partition("_")[0], dataset, clusters, method, *told, reason(figure)])
        columns = ("table", "dataset", "clusters", "method", "paper", "ours", "difference", "reason")
        values.append(dict(zip(columns, rows[-1], strict=True)))
    heading = ["table", "data", "K", "method", "paper", "ours", "difference", ""]
    table = Sheet("figures", "Tables 2 and 3 in percent, Table 4 in virtual seconds", heading, rows, values)
    return made("published", "Every published figure, and its neighbour", [table], specs(choice), finds)


def _told(figure: Figure, spec: Spec | None, choice: Choice, finds: Gathered) -> list[str]:
    if spec is None:
        return [NONE if figure.value is None else f"{figure.value:g}", NONE, NONE]
    runs = known(list(choice.with_seeds([spec])), finds)
    if figure.table == "4":
        return time_row(figure.value, [run.time_to_target for run in runs], [run.best for run in runs])[0]
    return accuracy_row(figure.value, [run.final if figure.table == "3" else run.best for run in runs])[0]


PUBLISHED = Exhibit("published", "every published figure, with what was measured in its place or why not", specs, _page)
