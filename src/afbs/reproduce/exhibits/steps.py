"""How far plain SGD comes in as many steps as each method's run is worth: is it the network that the paper had?

Federated or not, a network that has been trained so much is about so good. Where the paper's figures are above what
LeNet-5 reaches with that much training, the network was another one, or started elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.found import Evidence
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.published import figures
from afbs.reproduce.spec import GLOROT, STOCK, TITLES, Changes, Spec

_METHODS = ("fedfa", "fedasync", "feddyn", "fedbuff", "fedavg", "ca2fl", "afbs")
_DATASETS = ("cifar10", "mnist", "cifar100")
_SEEDS = (1, 2, 3)
_STEPS, _DAYS = 20, 1 / 3
_ALONE: Changes = (
    ("partition.clients", 1),
    ("run.in_flight", 1),
    ("latency.low", 60),
    ("latency.high", 60),
    ("training.steps", _STEPS),
    ("training.lr_decay_unit", "none"),
    ("evaluation.points", 50),
    ("evaluation.every", 0),
)
"""One client that has everything, and takes a few steps between two versions of a minute each."""
_NETWORKS = ("LeNet-5", "LeNet-5, Glorot and Bengio's weights", "FLGO's own")


def _spec(dataset: str, network: str) -> Spec:
    changes = dict(zip(_NETWORKS, ((), (GLOROT,), STOCK[dataset]), strict=True))[network]
    return Spec(dataset, 1, "fedavg", days=_DAYS, changes=(*changes, *_ALONE))


def _chosen(choice: Choice) -> list[str]:
    return [dataset for dataset in _DATASETS if choice.takes(dataset, 1)]


def specs(choice: Choice) -> list[Spec]:
    wanted = [_spec(dataset, network) for dataset in _chosen(choice) for network in _NETWORKS]
    return list(choice.with_seeds(wanted, _SEEDS))


def _measure(choice: Choice) -> Mapping[str, Any]:
    from afbs.reproduce.stepping import full_steps

    return {
        dataset: {method: round(full_steps(_first_order(dataset, method).cell.config)) for method in _METHODS}
        for dataset in _chosen(choice)
    }


def _first_order(dataset: str, method: str) -> Spec:
    """FedDyn but for its corrections is FedAvg in which clients count alike."""
    if method == "feddyn":
        return Spec(dataset, 1, "fedavg", changes=(("algorithm.average", "uniform"),))
    return Spec(dataset, 1, method)


def _page(choice: Choice, finds: Gathered) -> Page:
    counted = [dataset for dataset in _chosen(choice) if dataset in finds.measured]
    tables = [_table(dataset, finds.measured[dataset], choice, finds) for dataset in counted]
    notes = (
        "The steps: what the plan of a run with K = 1 is worth if every step of a client's SGD moves the model by the "
        "learning rate, in steps at the first rate; of FedDyn without its corrections. The paper's figure is that of "
        "Table 2.",
        "Beside it plain SGD with batches of 64 and a rate of 0.01 on all samples, as good as it then is: no clients, "
        "no staleness, no decay. It is a yardstick for a network, not for a method.",
        "FLGO's own: the network that the framework takes if nobody says otherwise, and for CIFAR its augmentation, "
        "random crops and mirrored images.",
        "They are trained for 9,600 steps; what is worth more is told as after these.",
    )
    return made("steps", "So many steps of plain SGD", tables, specs(choice), finds, notes)


def _table(dataset: str, steps_of: Mapping[str, int], choice: Choice, finds: Gathered) -> Sheet:
    paper = figures("2")
    rows, values = [], []
    for method, steps in sorted(steps_of.items(), key=lambda pair: pair[1]):
        printed = paper[method, dataset, 1]
        runs = {
            network: known(list(choice.with_seeds([_spec(dataset, network)], _SEEDS)), finds) for network in _NETWORKS
        }
        found = {network: [100 * _after(run, steps) for run in ours] for network, ours in runs.items()}
        told = [spread(ours, 1) if ours else "not run" for ours in found.values()]
        rows.append([f"{steps:,}", TITLES[method], f"{printed:.2f}", *told])
        means = {network: round(fmean(ours), 4) if ours else None for network, ours in found.items()}
        values.append({"steps": steps, "method": method, "paper": printed, **means})
    title = f"Test accuracy after so many steps of SGD, {TITLES[dataset]}, %"
    return Sheet(f"steps-{dataset}", title, ["steps", "as many as", "paper", *_NETWORKS], rows, values)


def _after(run: Evidence, steps: int) -> float:
    """Between two evaluations on the straight line."""
    return float(np.interp(steps / _STEPS, [point[1] for point in run.curve], [point[2] for point in run.curve]))


STEPS = Exhibit(
    "steps",
    "how far plain SGD comes in as many steps as each method's run is worth, with three networks",
    specs,
    _page,
    measure=_measure,
    heeds=("--dataset", "--seeds"),
)
