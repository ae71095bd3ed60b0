"""Which settings did the paper use? One open choice at a time, held against Table 4's column CIFAR-10, K = 1.

Each method runs until the moment at which the paper says that it has 50 %. The distance of a choice is the root of the
mean square of what is missing then, over the methods; what a choice does not touch counts as it is without it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.published import figures, target
from afbs.reproduce.spec import TITLES, Spec

_METHODS = ("afbs", "fedbuff", "ca2fl", "fedavg")
_BUFFERED = ("afbs", "fedbuff", "ca2fl")
_NETWORK = ("model.name", "afbs.reproduce.networks:OpenLeNet5")
_DAY = 86_400
Changes = tuple[tuple[str, Any], ...]


class Option(NamedTuple):
    """One other reading. `own` are changes that only this method can have."""

    title: str
    changes: Changes = ()
    methods: tuple[str, ...] = _METHODS
    own: tuple[tuple[str, Changes], ...] = ()


OPTIONS = (
    Option("as here"),
    Option("no decay", (("training.lr_decay_unit", "none"),)),
    Option("decay by virtual time", (("training.lr_decay_unit", "virtual_time"),)),
    Option("latency drawn once a job", (("latency.per", "job"),)),
    Option("AFBS: λ of each update's own staleness", (("algorithm.weights", "each"),), ("afbs",)),
    Option("AFBS: no λ", (("algorithm.weights", "none"),), ("afbs",)),
    Option("FedBuff: no staleness weights", (("algorithm.staleness", "none"),), ("fedbuff",)),
    Option("FedAvg: clients count alike", (("algorithm.average", "uniform"),), ("fedavg",)),
    Option(
        "clients are asked at a step only",
        (("algorithm.name", "afbs.reproduce.variants:AtFlush"),),
        _BUFFERED,
        tuple((method, (("algorithm.method", method),)) for method in _BUFFERED),
    ),
    Option("a tenth of the samples held out", (("partition.name", "afbs.reproduce.variants:HeldOut"),)),
    Option("momentum 0.9", (("training.optimizer", "momentum"),)),
    Option("pixels 0 to 1, not normalised", (_NETWORK, ("model.inputs", "unit"))),
    Option("LeNet-5 with tanh and mean pooling", (_NETWORK, ("model.activation", "tanh"), ("model.pooling", "mean"))),
    Option("LeNet-5 with mean pooling", (_NETWORK, ("model.pooling", "mean"))),
    Option("LeNet-5 with tanh", (_NETWORK, ("model.activation", "tanh"))),
    Option("LeNet-5 with a margin of two", (_NETWORK, ("model.margin", 2))),
    Option("weights drawn as Glorot and Bengio", (_NETWORK, ("model.start", "xavier"))),
    Option("weights drawn as He et al.", (_NETWORK, ("model.start", "kaiming"))),
    Option("FLGO's larger network", (("model.name", "flgo_cnn"),), ("afbs", "fedbuff")),
)


def specs(choice: Choice) -> list[Spec]:
    if not choice.takes("cifar10", 1):
        return []
    wanted = [_spec(option, method) for option in OPTIONS for method in choice.of(option.methods)]
    return list(choice.with_seeds(wanted))


def _spec(option: Option, method: str) -> Spec:
    if not option.changes:  # Table 2 has this run, and goes on
        return Spec("cifar10", 1, method)
    own = dict(option.own).get(method, ())
    return Spec("cifar10", 1, method, days=_days(method), changes=(*option.changes, *own))


def _days(method: str) -> float:
    """Until the paper's figure of Table 4."""
    seconds = figures("4")[method, "cifar10", 1]
    assert seconds is not None
    return seconds / _DAY


def _page(choice: Choice, finds: Gathered) -> Page:
    aim = 100 * target("cifar10")
    found = {
        (option.title, method): [
            100 * run.accuracy_at(_days(method) * _DAY) for run in known(_seeds(choice, option, method), finds)
        ]
        for option in OPTIONS
        for method in choice.of(option.methods)
    }
    rows, values = [], []
    for option in OPTIONS:
        misses: list[float] = []
        row = []
        for method in choice.of(_METHODS):
            runs = found.get((option.title, method), [])
            misses += [value - aim for value in (runs or _unchanged(found, option, method))[:1]]
            row.append(spread(runs, 2) if runs else "not run" if method in option.methods else "as here")
        whole = len(misses) == len(choice.of(_METHODS))
        distance = math.sqrt(sum(miss * miss for miss in misses) / len(misses)) if whole and misses else None
        rows.append([option.title, *row, NONE if distance is None else f"{distance:.2f}"])
        first = {method: found.get((option.title, method), [])[:1] for method in _METHODS}
        numbers = {method: runs[0] if runs else None for method, runs in first.items()}
        values.append({"option": option.title, **numbers, "distance": None if distance is None else round(distance, 4)})
    order = sorted(range(len(rows)), key=lambda place: (values[place]["distance"] is None, values[place]["distance"]))
    heading = ["", *(TITLES[method] for method in choice.of(_METHODS)), "distance"]
    title = f"Test accuracy in percent when the paper has {aim:.0f}: CIFAR-10, K = 1"
    table = Sheet("distance", title, heading, [rows[place] for place in order], [values[place] for place in order])
    notes = (
        "The distance is the root of the mean square of what is missing to 50 %, over the four methods; the smallest "
        "is nearest to the paper's Table 4.",
        "Whether second chances are normalised by cluster or by buffer makes no difference at K = 1.",
        *(f"At the paper's time for {TITLES[method]}: day {_days(method):.2f}." for method in choice.of(_METHODS)),
    )
    return made(SETTINGS_NAME, "Which settings did the paper use?", [table], specs(choice), finds, notes)


def _unchanged(found: dict[tuple[str, str], list[float]], option: Option, method: str) -> list[float]:
    return [] if method in option.methods else found.get((OPTIONS[0].title, method), [])


def _seeds(choice: Choice, option: Option, method: str) -> list[Spec]:
    return list(choice.with_seeds([_spec(option, method)]))


SETTINGS_NAME = "settings"
SETTINGS = Exhibit(SETTINGS_NAME, "which settings did the paper use? one open choice at a time", specs, _page)
