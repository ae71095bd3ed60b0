"""Writes the tables of reproduction.md anew, from the committed runs: `python docs/tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; whatever was there is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

from afbs.reproduce import found
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import EXHIBITS, Gathered, curves, fair
from afbs.reproduce.exhibits.ablations import QUESTIONS
from afbs.reproduce.exhibits.clustering import ARMS, compared
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import NONE
from afbs.reproduce.published import figures
from afbs.reproduce.spec import CLUSTERS, GLOROT, TITLES, Spec
from afbs.sweeps.statistics import paired

PAGE = Path(__file__).parent / "reproduction.md"
CELLS = Path(__file__).parents[1] / "results" / "cells"
_SEEDS = (1, 2, 3)
_METHODS = ("afbs", "ca2fl", "feddyn", "fedavg", "fedbuff", "fedasync", "fedfa")
_LEARN = _METHODS[:5]
_DATASETS = ("cifar10", "cifar100", "mnist", "sst2")
_BY_TIME = (("training.lr_decay_unit", "virtual_time"),)
_NOT_RUN = "not run"
_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
Rows = list[list[str]]
Runs = dict[str, Evidence]


def main() -> None:
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def rewritten(text: str) -> str:
    """The page with every table as the runs have it today."""
    runs = {folder.name: found.read(folder) for folder in CELLS.iterdir()}
    return _PLACE.sub(lambda place: f"{place[1]}\n{_lines(TABLES[place[2]](runs))}\n{place[3]}", text)


def _highest(runs: Runs) -> Rows:
    """Ours, and in brackets the paper's."""
    paper = figures("2")
    rows = [["", *(TITLES[method] for method in _METHODS)]]
    for dataset in _DATASETS:
        for clusters in CLUSTERS[dataset]:
            ours = {method: runs.get(Spec(dataset, clusters, method).name) for method in _METHODS}
            told = [
                f"{100 * run.best:.1f} ({paper[method, dataset, clusters]:.1f})" if run else _NOT_RUN
                for method, run in ours.items()
            ]
            rows.append([f"{TITLES[dataset]}, K = {clusters}", *told])
    return rows


def _start(runs: Runs) -> Rows:
    """Tables 2 and 4 from two starts, where both have been run."""
    highest, soonest = figures("2"), figures("4")
    rows = [["CIFAR-10, K = 1", "highest: paper", "torch", "Glorot", "when the paper has 50: torch", "Glorot"]]
    for method in _LEARN:
        specs = Spec("cifar10", 1, method), Spec("cifar10", 1, method, changes=(GLOROT,))
        moment = soonest[method, "cifar10", 1] or 0.0
        both = [runs[spec.name] for spec in specs]
        best = [f"{100 * run.best:.1f}" for run in both]
        then = [f"{100 * run.accuracy_at(moment):.1f}" for run in both]
        rows.append([TITLES[method], f"{highest[method, 'cifar10', 1]:.1f}", *best, *then])
    return rows


def _stops(runs: Runs) -> Rows:
    """Where those stop whose learning rate is gone at once."""
    table = EXHIBITS["settings"].page(Choice(), Gathered(runs)).tables[1]
    return [list(table.heading), *map(list, table.rows)]


def _distance(runs: Runs) -> Rows:
    """The search for the paper's settings, as far as it has come."""
    table = EXHIBITS["settings"].page(Choice(), Gathered(runs)).tables[0]
    return [list(table.heading), *(list(row) for row in table.rows if row[-1] != NONE)]


def _plain(runs: Runs, dataset: str) -> Rows:
    measured = json.loads((CELLS.parent / "steps" / "measured.json").read_text())
    (table,) = EXHIBITS["steps"].page(Choice(datasets=(dataset,)), Gathered(runs, measured)).tables
    return [[f"{TITLES[dataset]}, steps", *table.heading[1:]], *map(list, table.rows)]


def _sizes(_: Runs) -> Rows:
    table = EXHIBITS["table5"].page(Choice(), Gathered({})).tables[-1]
    return [list(table.heading), *map(list, table.rows)]


def _sway(runs: Runs) -> Rows:
    rows = [["", *(f"K = {clusters}" for clusters in CLUSTERS["cifar10"])]]
    for method in _LEARN:
        ours = [runs.get(Spec("cifar10", clusters, method).name) for clusters in CLUSTERS["cifar10"]]
        rows.append([TITLES[method], *(_percent(run.late) if run else _NOT_RUN for run in ours)])
    return rows


def _decay(runs: Runs, clusters: int) -> Rows:
    rows = [[f"K = {clusters}", "decay an update", "by virtual time", "difference", "p"]]
    for method in _METHODS:
        usual, by_time = (
            _seeds(runs, Spec("cifar10", clusters, method, 1, 3.0, changes)) for changes in ((), _BY_TIME)
        )
        if usual and by_time:
            rows.append([TITLES[method], _level(usual), _level(by_time), *_against(by_time, usual)])
    return rows


def _asked(runs: Runs, name: str, clusters: int) -> Rows:
    """The arms of one of the ablations' questions, the best first."""
    (question,) = (question for question in QUESTIONS if question.name == name)
    arms = {arm: _seeds(runs, Spec("cifar10", clusters, arm.method, 1, 3.0, arm.changes)) for arm in question.arms}
    named = {arm.title: ours for arm, ours in arms.items()}
    rows = [
        [arm.title, _level(ours), _steps(ours), arm.against, *_against(ours, named.get(arm.against, []))]
        for arm, ours in sorted(arms.items(), key=lambda pair: -_mean(pair[1]))
    ]
    return [[f"K = {clusters}", "last third", "local steps a step", "against", "difference", "p"], *rows]


def _tuned(runs: Runs) -> Rows:
    rows = [["", "client rate", "server", "last third", "local steps a step", "updates used", "against AFBS", "p"]]
    for clusters in (1, 5):
        specs = {method: fair.tuned(clusters, method, Gathered(runs)) for method in _METHODS}
        arms = {method: ours for method, spec in specs.items() if spec and (ours := _seeds(runs, spec))}
        for method in sorted(arms, key=lambda method: -_mean(arms[method])):
            ours, spec = arms[method], specs[method]
            assert spec is not None
            _, (_, rate), (path, value), *_ = spec.changes
            used = f"{fmean(run.updates['used'] for run in ours):,.0f}"
            gap = ["", ""] if method == "afbs" else _against(ours, arms.get("afbs", []))
            server = f"{path.rpartition('.')[2]} {value:g}"
            name = f"K = {clusters}, {TITLES[method]}"
            rows.append([name, f"{rate:g}", server, _level(ours), _steps(ours), used, *gap])
    return rows


def _clustering_long(runs: Runs) -> Rows:
    """The runs of Table 3."""
    paper = figures("3")
    rows = [["20 days", "last third", "highest", "final", "paper's final", "local steps a step"]]
    for dataset in ("cifar10", "cifar100", "mnist"):
        for clusters in (3, 5):
            for arm, changes in ARMS.items():
                run = runs.get(compared(dataset, clusters, changes).name)
                told = (
                    [_percent(run.late), f"{100 * run.best:.1f}", f"{100 * run.final:.1f}"] if run else [_NOT_RUN] * 3
                )
                steps = _steps([run] if run else [])
                printed = f"{paper[arm, dataset, clusters]:.1f}"
                rows.append([f"{TITLES[dataset]}, K = {clusters}, {arm}", *told, printed, steps])
    return rows


def _buffer(runs: Runs) -> Rows:
    rows = [["", "dropped", "local steps a step", "ended at day", "highest", "last third", "final"]]
    for (_, clusters), arms in curves.buffers(Choice()).items():
        for arm, spec in arms.items():
            run = runs[spec.name]
            dropped = run.updates["dropped"] / (run.updates["dropped"] + run.updates["used"])
            told = [f"{100 * run.best:.1f}", _percent(run.late), f"{100 * run.final:.1f}"]
            end = f"{run.virtual_seconds / 86_400:.1f}"
            rows.append([f"K = {clusters}, {arm}", _share(dropped), _steps([run]), end, *told])
    return rows


def _heard(runs: Runs) -> Rows:
    ended = [runs.get(Spec("cifar10", clusters, "afbs").name) for clusters in CLUSTERS["cifar10"]]
    ours = [run.heard for run in ended if run]
    return [
        ["", *(f"K = {clusters}" for clusters in CLUSTERS["cifar10"])],
        ["clients never heard", *(str(one["never"]) for one in ours)],
        ["of the smallest fifth's updates count", *(_share(one["by_examples"]["kept"][0]) for one in ours)],
        ["they carry of all weight", *(_share(one["by_examples"]["weight"][0]) for one in ours)],
        ["of the largest fifth's updates count", *(_share(one["by_examples"]["kept"][-1]) for one in ours)],
        ["they carry of all weight", *(_share(one["by_examples"]["weight"][-1]) for one in ours)],
        [
            "weight of the fastest fifth, of the slowest",
            *(f"{_share(w[0])}, {_share(w[-1])}" for one in ours for w in [one["by_latency"]["weight"]]),
        ],
    ]


TABLES: dict[str, Callable[[Runs], Rows]] = {
    "highest": _highest,
    "start": _start,
    "stops": _stops,
    "sizes": _sizes,
    "distance": _distance,
    "plain": lambda runs: _plain(runs, "cifar10"),
    "plain-mnist": lambda runs: _plain(runs, "mnist"),
    "plain-cifar100": lambda runs: _plain(runs, "cifar100"),
    "sway": _sway,
    "decay-k1": lambda runs: _decay(runs, 1),
    "decay-k3": lambda runs: _decay(runs, 3),
    "step-k1": lambda runs: _asked(runs, "step", 1),
    "step-k3": lambda runs: _asked(runs, "step", 3),
    "start-k1": lambda runs: _asked(runs, "start", 1),
    "start-k3": lambda runs: _asked(runs, "start", 3),
    "tuned": _tuned,
    "clusters-k3": lambda runs: _asked(runs, "clusters", 3),
    "clusters-k5": lambda runs: _asked(runs, "clusters", 5),
    "clustering-long": _clustering_long,
    "buffer": _buffer,
    "heard": _heard,
}


def _seeds(runs: Runs, spec: Spec) -> list[Evidence]:
    names = [replace(spec, seed=seed).name for seed in _SEEDS]
    return [runs[name] for name in names if name in runs]


def _mean(ours: Sequence[Evidence]) -> float:
    return fmean(run.level for run in ours) if ours else 0.0


def _level(ours: Sequence[Evidence]) -> str:
    """The mean in the last third of runs, over seeds."""
    return _percent([run.level for run in ours]) if ours else _NOT_RUN


def _percent(accuracies: Sequence[float]) -> str:
    deviation = f" ± {100 * stdev(accuracies):.1f}" if len(accuracies) > 1 else ""
    return f"{100 * fmean(accuracies):.1f}{deviation}"


def _steps(ours: Sequence[Evidence]) -> str:
    return f"{fmean(run.heard['local_steps_a_step'] for run in ours):.1f}" if ours else ""


def _against(ours: Sequence[Evidence], others: Sequence[Evidence]) -> list[str]:
    """The mean ± the standard deviation of the differences seed by seed, and Student's p."""
    mine, theirs = ({run.seed: run.level for run in runs} for runs in (ours, others))
    gaps = [100 * (mine[seed] - theirs[seed]) for seed in mine.keys() & theirs.keys()]
    if len(gaps) < 2:
        return ["", ""]
    return [f"{_signed(fmean(gaps))} ± {stdev(gaps):.1f}", f"{paired(mine, theirs, 't')[1]:.2g}"]


def _signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _lines(rows: Rows) -> str:
    heading, *body = rows
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
