"""Which settings did the paper use? One open choice at a time, held against Table 4's column CIFAR-10, K = 1.

The first reading is the framework's defaults and torch's own weights. Each method runs until the moment at which the
paper says that it has 50 %, and its mean accuracy in the last tenth of that time counts: a single evaluation of a model
that sways may be two points off. The distance of a choice is the root of the mean square of what is missing, over the
methods; what a choice does not touch counts as it is without it. Then those choices that come nearer by more than
chance are tried together, as far as they do not contradict each other, the nearest first; and whatever is nearest of
all, but for a network that takes ten times as long, is run to the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from afbs.reproduce.beside import BOTH, both_rows, spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import starts
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.published import figures, target
from afbs.reproduce.spec import GLOROT, STOCK, TITLES, Changes, Spec

_METHODS = ("afbs", "fedbuff", "ca2fl", "fedavg")
_BUFFERED = ("afbs", "fedbuff", "ca2fl")
_SHORTEST = ("afbs", "fedbuff")
_PIXELS = ("data.name", "afbs.reproduce.variants:Pixels")
_TANH, _MEAN = ("model.activation", "tanh"), ("model.pooling", "mean")
_DAY = 86_400
_MARGIN = 1.0
"""In points: so much nearer a choice must come, as one seed may be that far off."""
_LAST = 0.9
_EVALUATED: Changes = (("evaluation.points", 60), ("evaluation.spacing", "linear"), ("evaluation.every", 0))
"""Seven of them are in the last tenth, its two ends among them."""


class Option(NamedTuple):
    """One other reading. `own` are changes that only this method can have. What is not `whole` takes too long to be run
    to the end or together with others; its distance is over the methods that it was tried on. What is against the
    paper's own words is tried for what it does, but `joins` no others."""

    title: str
    changes: Changes = ()
    methods: tuple[str, ...] = _METHODS
    own: tuple[tuple[str, Changes], ...] = ()
    whole: bool = True
    joins: bool = True

    def of(self, method: str) -> Changes:
        """What it changes for this method."""
        return (*self.changes, *dict(self.own).get(method, ())) if method in self.methods else ()


OPTIONS = (
    Option("as first read"),
    Option("no decay", (("training.lr_decay_unit", "none"),)),
    Option("decay by virtual time", (("training.lr_decay_unit", "virtual_time"),)),
    Option("latency drawn once a job", (("latency.per", "job"),)),
    Option("AFBS: λ of each update's own staleness", (("algorithm.weights", "each"),), ("afbs",), joins=False),
    Option("AFBS: no λ", (("algorithm.weights", "none"),), ("afbs",), joins=False),
    Option("FedBuff: no staleness weights", (("algorithm.staleness", "none"),), ("fedbuff",), joins=False),
    Option("FedAvg: clients count alike", (("algorithm.average", "uniform"),), ("fedavg",), joins=False),
    Option(
        "clients are asked at a step only",
        (("algorithm.name", "afbs.reproduce.variants:AtFlush"),),
        _BUFFERED,
        tuple((method, (("algorithm.method", method),)) for method in _BUFFERED),
    ),
    Option("a tenth of the samples held out", (("partition.name", "afbs.reproduce.variants:HeldOut"),)),
    Option("momentum 0.9", (("training.optimizer", "momentum"),)),
    Option("pixels 0 to 1, not normalised", (_PIXELS, ("data.balanced", False))),
    Option("pixels −1 to 1", (_PIXELS, ("data.balanced", True))),
    Option("LeNet-5 with a margin of two", (("model.margin", 2),)),
    Option("weights drawn as Glorot and Bengio", (GLOROT,)),
    Option("weights drawn as He et al.", (("model.start", "kaiming"),)),
    Option("LeNet-5 with mean pooling", (_MEAN,), _SHORTEST, whole=False),
    Option("LeNet-5 with tanh", (_TANH,), _SHORTEST, whole=False),
    Option("LeNet-5 with tanh and mean pooling", (_TANH, _MEAN), _SHORTEST, whole=False),
    Option("FLGO's own network and augmentation", STOCK["cifar10"], whole=False),
)


def specs(choice: Choice) -> list[Spec]:
    if not choice.takes("cifar10", 1):
        return []
    wanted = [_spec(option, method) for option in OPTIONS for method in choice.of(option.methods)]
    return [*choice.with_seeds(wanted), *starts.specs(choice)]


def then(choice: Choice, finds: Gathered) -> list[Spec]:
    """What is nearer, together; and once that is known, the nearest of all to the end."""
    if not _all_known(choice, finds):
        return []
    together = _together(choice, finds)
    wanted = [_spec(together, method) for method in choice.of(_METHODS)] if together else []
    nearest = _nearest(choice, finds, [*OPTIONS, *([together] if together else [])])
    if nearest is not None and nearest.changes + nearest.own:
        wanted += [_spec(nearest, method, whole=True) for method in choice.of(_METHODS)]
    return list(choice.with_seeds(wanted))


def _spec(option: Option, method: str, whole: bool = False) -> Spec:
    changes = option.of(method)
    if whole:
        return Spec("cifar10", 1, method, changes=changes)
    return Spec("cifar10", 1, method, days=_days(method), changes=(*changes, *_EVALUATED))


def _all_known(choice: Choice, finds: Gathered) -> bool:
    return all(_distance(choice, finds, option) is not None for option in OPTIONS if option.whole)


def _together(choice: Choice, finds: Gathered) -> Option | None:
    """All that come nearer by themselves, the nearest first; None while some are not known, or with fewer than two."""
    if not _all_known(choice, finds):
        return None
    here = _distance(choice, finds, OPTIONS[0]) or 0.0
    found = ((_distance(choice, finds, option), option) for option in OPTIONS if option.whole and option.joins)
    nearer = [(distance, option) for distance, option in found if distance is not None and distance < here - _MARGIN]
    chosen: list[Option] = []
    for _, option in sorted(nearer, key=lambda pair: pair[0]):
        if not any(contradict(option, other) for other in chosen):
            chosen.append(option)
    if len(chosen) < 2:
        return None
    own = {
        method: tuple(dict.fromkeys(change for option in chosen for change in option.of(method))) for method in _METHODS
    }
    return Option(" + ".join(option.title for option in chosen), (), _METHODS, tuple(own.items()))


def contradict(one: Option, other: Option) -> bool:
    """Whether both say something else of one setting, or one names another part than that which the other changes."""
    for method in _METHODS:
        first, second = dict(one.of(method)), dict(other.of(method))
        if any(first[path] != second[path] for path in first.keys() & second.keys()):
            return True
        if _replaces(first, second) or _replaces(second, first):
            return True
    return False


def _replaces(changes: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    named = [path.removesuffix("name") for path in changes if path.endswith(".name") and path not in others]
    return any(other.startswith(part) for other in others for part in named)


def _nearest(choice: Choice, finds: Gathered, options: Sequence[Option]) -> Option | None:
    distances = [(_distance(choice, finds, option), option) for option in options if option.whole]
    known_ones = [(distance, option) for distance, option in distances if distance is not None]
    if len(known_ones) < len(distances):
        return None
    return min(known_ones, key=lambda pair: pair[0])[1]


def _days(method: str) -> float:
    """Until the paper's figure of Table 4."""
    seconds = figures("4")[method, "cifar10", 1]
    assert seconds is not None
    return seconds / _DAY


def _then_at(choice: Choice, finds: Gathered, option: Option, method: str) -> list[float]:
    """Percent shortly before the paper's moment, a number a seed."""
    runs = known(list(choice.with_seeds([_spec(option, method)])), finds)
    return [100 * fmean(run.since(_LAST)) for run in runs]


def _distance(choice: Choice, finds: Gathered, option: Option) -> float | None:
    """None while a run is missing."""
    methods = choice.of(_METHODS if option.whole else option.methods)
    found = [_then_at(choice, finds, option, method) for method in methods]
    if not all(found) or not found:
        return None
    return math.sqrt(fmean((fmean(values) - 100 * target("cifar10")) ** 2 for values in found))


def _page(choice: Choice, finds: Gathered) -> Page:
    together = _together(choice, finds)
    options = [*OPTIONS, together] if together else list(OPTIONS)
    rows, values = [], []
    for option in options:
        found = {method: _then_at(choice, finds, option, method) for method in choice.of(_METHODS)}
        told = [_told(option, method, found[method]) for method in choice.of(_METHODS)]
        distance = _distance(choice, finds, option)
        among = "" if option.whole or option.methods == _METHODS else " (these alone)"
        rows.append([option.title, *told, NONE if distance is None else f"{distance:.2f}{among}"])
        numbers = {method: round(fmean(ours), 4) if ours else None for method, ours in found.items()}
        values.append({"option": option.title, **numbers, "distance": None if distance is None else round(distance, 4)})
    order = sorted(range(len(rows)), key=lambda place: (values[place]["distance"] is None, values[place]["distance"]))
    heading = ["", *(TITLES[method] for method in choice.of(_METHODS)), "distance"]
    aim = 100 * target("cifar10")
    title = (
        f"Test accuracy in percent in the last tenth of the time after which the paper has {aim:.0f}: CIFAR-10, K = 1"
    )
    sheets = [Sheet("distance", title, heading, [rows[place] for place in order], [values[place] for place in order])]
    sheets += starts.sheets(choice, finds)
    nearest = _nearest(choice, finds, options)
    if nearest is not None:
        sheets.append(_whole(choice, finds, nearest))
    notes = (
        "The distance is the root of the mean square of what is missing to 50 %, over the methods; the smallest is "
        "nearest to the paper's Table 4.",
        f"What comes nearer by more than {_MARGIN:g} point is tried together, but for what is against the paper's own "
        "words. One seed, and the mean of seven evaluations.",
        "LeNet-5 without its native kernel is tried on AFBS and FedBuff, whose runs are shortest. With FLGO's network "
        "AFBS alone is run for 20 days.",
        "Whether second chances are normalised by cluster or by buffer makes no difference at K = 1.",
        *(f"At the paper's time for {TITLES[method]}: day {_days(method):.2f}." for method in choice.of(_METHODS)),
    )
    wanted = [*specs(choice), *then(choice, finds)]
    return made("settings", "Which settings did the paper use?", sheets, wanted, finds, notes)


def _told(option: Option, method: str, found: list[float]) -> str:
    if method not in option.methods:
        return "as first read" if option.whole else NONE
    return spread(found, 2) if found else "not run"


def _whole(choice: Choice, finds: Gathered, nearest: Option) -> Sheet:
    """The nearest of all, beside Tables 2 and 4."""
    rows, values = [], []
    for method in choice.of(_METHODS):
        runs = known(list(choice.with_seeds([_spec(nearest, method, whole=True)])), finds)
        told, numbers = both_rows(method, "cifar10", runs)
        rows.append([TITLES[method], *told])
        values += [{"method": method, **table} for table in numbers]
    return Sheet("nearest", f"The nearest of those with LeNet-5, for 20 days: {nearest.title}", BOTH, rows, values)


SETTINGS = Exhibit("settings", "which settings did the paper use? one open choice at a time", specs, _page, then)
