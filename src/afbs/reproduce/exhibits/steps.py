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
from afbs.reproduce.spec import GLOROT, TITLES, Changes, Spec

_METHODS = ("fedfa", "fedasync", "feddyn", "fedbuff", "fedavg", "ca2fl", "afbs")
_SEEDS = (1, 2, 3)
_STEPS, _ROUNDS = 20, 475
_ALONE: Changes = (
    ("partition.clients", 1),
    ("run.in_flight", 1),
    ("latency.low", 60),
    ("latency.high", 60),
    ("training.steps", _STEPS),
    ("training.lr_decay_unit", "none"),
    ("run.versions", _ROUNDS),
    ("evaluation.points", 50),
    ("evaluation.every", 0),
)
"""One client that has everything, and takes a few steps between two versions of a minute each."""
_NETWORKS: dict[str, Changes] = {
    "LeNet-5": (),
    "LeNet-5, Glorot and Bengio's weights": (GLOROT,),
    "FLGO's network": (("model.name", "flgo_cnn"),),
}


def _spec(network: str) -> Spec:
    return Spec("cifar10", 1, "fedavg", days=1.0, changes=(*_NETWORKS[network], *_ALONE))


def specs(choice: Choice) -> list[Spec]:
    return list(choice.with_seeds([_spec(network) for network in _NETWORKS], _SEEDS))


def _measure(choice: Choice) -> Mapping[str, Any]:
    from afbs.reproduce.stepping import full_steps

    return {method: round(full_steps(_first_order(method).cell.config)) for method in _METHODS}


def _first_order(method: str) -> Spec:
    """FedDyn but for its corrections is FedAvg in which clients count alike."""
    if method == "feddyn":
        return Spec("cifar10", 1, "fedavg", changes=(("algorithm.average", "uniform"),))
    return Spec("cifar10", 1, method)


def _page(choice: Choice, finds: Gathered) -> Page:
    paper = figures("2")
    rows, values = [], []
    for method in sorted(finds.measured, key=lambda name: finds.measured[name]):
        steps, printed = finds.measured[method], paper[method, "cifar10", 1]
        found = {
            network: [
                100 * _after(run, steps) for run in known(list(choice.with_seeds([_spec(network)], _SEEDS)), finds)
            ]
            for network in _NETWORKS
        }
        told = [spread(ours, 1) if ours else "not run" for ours in found.values()]
        rows.append([f"{steps:,}", TITLES[method], f"{printed:.2f}", *told])
        means = {network: round(fmean(ours), 4) if ours else None for network, ours in found.items()}
        values.append({"steps": steps, "method": method, "paper": printed, **means})
    heading = ["steps", "as many as", "paper", *_NETWORKS]
    table = Sheet("steps", "Test accuracy after so many steps of SGD, CIFAR-10, %", heading, rows, values)
    notes = (
        "The steps: what the plan of a run with K = 1 is worth if every step of a client's SGD moves the model by the "
        "learning rate, in steps at the first rate; of FedDyn without its corrections. The paper's figure is that of "
        "Table 2.",
        "Beside it plain SGD with batches of 64 and a rate of 0.01 on all samples, as good as it then is: no clients, "
        "no staleness, no decay. It is a yardstick for a network, not for a method.",
        "Where a run was tested for the last time before so many steps, that is what is told.",
    )
    return made("steps", "So many steps of plain SGD", [table] if rows else [], specs(choice), finds, notes)


def _after(run: Evidence, steps: int) -> float:
    """Between two evaluations on the straight line."""
    return float(np.interp(steps / _STEPS, [point[1] for point in run.curve], [point[2] for point in run.curve]))


STEPS = Exhibit(
    "steps",
    "how far plain SGD comes in as many steps as each method's run is worth, with three networks",
    specs,
    _page,
    measure=_measure,
    heeds=("--seeds",),
)
