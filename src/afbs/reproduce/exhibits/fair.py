"""The fair comparison: the learning rate falls with virtual time for everybody, and everybody is tuned alike.

Twelve points of a grid for each method, the client's rate and what its server has in place of one, tried for a while
on a tenth of the training samples that is set aside; the best of each client's rate for as long as a run lasts, because
a rate that wins a short trial may go to pieces in a long one. The best of these is tried with a second seed, because
rates that hold with one seed may not with another, and counts by the mean of both; so does whatever may be better.
Its neighbours are tried as long: the next lower and higher value of the server's, because that, too, was chosen by a
short trial, and where the client's rate is at an edge of the grid, the one beyond. So it goes on while one of them is
better: a grid that lies amiss says nothing of a method. Then the best on the test set, with three seeds. Nothing is
drawn, and nobody has more luck than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

from afbs.reproduce.choice import Choice
from afbs.reproduce.comparing import MEANING, compared
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.spec import METHODS, NEWER, TITLES, TO_THE_END, Spec

_DAYS, _TRIAL_DAYS = 5.0, 1.5
_SEEDS = (1, 2, 3)
_TRIAL_SEED, _SECOND_SEED = 11, 12
_CLUSTERS = (1, 5)
_BY_TIME = ("training.lr_decay_unit", "virtual_time")


class Ladder(NamedTuple):
    """A setting and its values: those of the grid, and from its ends outward those beyond."""

    path: str
    grid: tuple[Any, ...]
    below: tuple[Any, ...] = ()
    above: tuple[Any, ...] = ()

    def next_to(self, value: Any) -> list[Any]:
        """The next lower and the next higher one, if there are."""
        whole = (*reversed(self.below), *self.grid, *self.above)
        place = whole.index(value)
        return [*whole[:place][-1:], *whole[place + 1 :][:1]]

    def beyond(self, value: Any) -> list[Any]:
        """Of these that which is not in the grid."""
        return [other for other in self.next_to(value) if other not in self.grid]


RATES = Ladder("training.lr", (0.01, 0.03, 0.1), (0.003, 0.001), (0.3, 1.0))
_SERVER_LR = Ladder("algorithm.server_lr", (0.5, 1.0, 2.0, 4.0), (0.25, 0.125, 0.0625, 0.03125), (8.0, 16.0))
SERVER = {
    "afbs": _SERVER_LR,
    "fedbuff": _SERVER_LR,
    "ca2fl": _SERVER_LR,
    "fedavg": _SERVER_LR,
    "fedasync": Ladder("algorithm.mixing", (0.1, 0.3, 0.6, 0.9), (0.03, 0.01), (1.0,)),
    "fedfa": Ladder("algorithm.queue_size", (2, 5, 10, 20), (1,), (40, 80)),
    "feddyn": Ladder("algorithm.alpha", (0.01, 0.03, 0.1, 0.3), (0.003, 0.001), (1.0, 3.0)),
    "fadas": Ladder("algorithm.adaptive_lr", (0.001, 0.003, 0.01, 0.03), (0.0003, 0.0001), (0.1, 0.3)),
    "fedstaleweight": _SERVER_LR,
    "ace": Ladder("algorithm.arrival_lr", (0.05, 0.1, 0.2, 0.4), (0.025, 0.0125), (0.8, 1.6)),
}
"""What a server has to say about the step: a rate, or the one number that stands for it."""
_OPTIONS = 4
_SET_ASIDE = ("evaluation.validation", 0.1)


def _trials(clusters: int, method: str) -> list[Spec]:
    server = SERVER[method]
    return [
        Spec(
            "cifar10",
            clusters,
            method,
            _TRIAL_SEED,
            _TRIAL_DAYS,
            (_BY_TIME, (RATES.path, rate), (server.path, value), TO_THE_END, _SET_ASIDE),
        )
        for rate, value in product(RATES.grid, server.grid)
    ]


class Tuning(NamedTuple):
    """How far a method's has come: its finals, which are the long runs that it has asked for so far, and the best of
    them once that is settled."""

    finals: list[Spec]
    best: Spec | None


def tuning(clusters: int, method: str, finds: Gathered) -> Tuning:
    """The best trial of each client's rate, once every trial has ended; what is the best of these with a second seed,
    and its rivals; and the best's neighbours, until it has been held against them."""
    trials = _trials(clusters, method)
    if not _have_ended(trials, finds):
        return Tuning([], None)
    of_each_rate = [[spec for spec in trials if (RATES.path, rate) in spec.changes] for rate in RATES.grid]
    finals = [replace(max(specs, key=lambda spec: _level([spec], finds)), days=_DAYS) for specs in of_each_rate]
    while _have_ended(finals, finds):
        points = [spec for spec in finals if spec.seed == _TRIAL_SEED]
        twice = [spec for spec in points if _again(spec) in finals]
        best = max(twice, key=lambda spec: _level([spec, _again(spec)], finds), default=None)
        rivals = [spec for spec in points if spec not in twice and (best is None or _rivals(spec, best, finds))]
        if rivals:
            further = [_again(max(rivals, key=lambda spec: _level([spec], finds)))]
        else:
            assert best is not None
            further = [spec for spec in _around(best) if spec not in finals]
        if not further:
            return Tuning(finals, best)
        finals += further
    return Tuning(finals, None)


def _again(spec: Spec) -> Spec:
    return replace(spec, seed=_SECOND_SEED)


def _rivals(spec: Spec, best: Spec, finds: Gathered) -> bool:
    """Whether it may be better than the best: it is so with the same seed, or than both seeds' mean. The second seed
    may be an easier one."""
    return _level([spec], finds) > min(_level([best], finds), _level([best, _again(best)], finds))


def _around(spec: Spec) -> list[Spec]:
    """Its neighbours. Every client's rate of the grid has had a long run of its own."""
    changes = dict(spec.changes)
    server = SERVER[spec.method]
    others = [(RATES.path, value) for value in RATES.beyond(changes[RATES.path])]
    others += [(server.path, value) for value in server.next_to(changes[server.path])]
    return [replace(spec, changes=tuple({**changes, path: value}.items())) for path, value in others]


def _have_ended(specs: Sequence[Spec], finds: Gathered) -> bool:
    return all(spec.name in finds.runs for spec in specs)


def _level(specs: Sequence[Spec], finds: Gathered) -> float:
    return fmean(run.level for run in known(specs, finds))


def tuned(clusters: int, method: str, finds: Gathered) -> Spec | None:
    """The run that is compared with the other methods', once its settings are known."""
    best = tuning(clusters, method, finds).best
    if best is None:
        return None
    return Spec("cifar10", clusters, method, days=_DAYS, changes=tuple(c for c in best.changes if c != _SET_ASIDE))


def _asked(choice: Choice) -> list[int]:
    return [clusters for clusters in _CLUSTERS if choice.takes("cifar10", clusters)]


def _exhibit(name: str, title: str, methods: Sequence[str], notes: Sequence[str] = ()) -> Exhibit:
    def specs(choice: Choice) -> list[Spec]:
        """The trials; their seed is none of those that are compared."""
        points = product(_asked(choice), choice.of(methods))
        return [spec for clusters, method in points for spec in _trials(clusters, method)]

    def then(choice: Choice, finds: Gathered) -> list[Spec]:
        points = list(product(_asked(choice), choice.of(methods)))
        finals = [spec for clusters, method in points for spec in tuning(clusters, method, finds).finals]
        best = [spec for clusters, method in points if (spec := tuned(clusters, method, finds)) is not None]
        return [*finals, *choice.with_seeds(best, _SEEDS)]

    def page(choice: Choice, finds: Gathered) -> Page:
        tables = []
        for clusters in _asked(choice):
            arms = {}
            for method in choice.of(methods):
                spec = tuned(clusters, method, finds)
                arms[TITLES[method]] = known(list(choice.with_seeds([spec], _SEEDS)), finds) if spec else []
            against = {arm: "FedBuff" if arm == "AFBS" else "AFBS" for arm in arms}
            heading, rows, values = compared(arms, against)
            tables.append(Sheet(f"tuned-k{clusters}", f"Tuned alike, CIFAR-10, K = {clusters}", heading, rows, values))
            tables.append(_final_table(clusters, choice.of(methods), finds))
            tables.append(_trial_table(clusters, choice.of(methods), finds))
        wanted = [*specs(choice), *then(choice, finds)]
        return made(name, title[0].upper() + title[1:], tables, wanted, finds, (*_NOTES, *notes))

    return Exhibit(name, title, specs, page, then)


def _final_table(clusters: int, methods: Sequence[str], finds: Gathered) -> Sheet:
    rows, values = [], []
    for method in methods:
        server = SERVER[method]
        finals, best = tuning(clusters, method, finds)
        for spec in (final for final in finals if final.seed == _TRIAL_SEED):
            changes = dict(spec.changes)
            rate, value = changes[RATES.path], changes[server.path]
            again = _again(spec)
            short, long = (_found(one, finds) for one in (replace(spec, days=_TRIAL_DAYS), spec))
            second = _found(again, finds) if again in finals else None
            rows.append(
                [
                    TITLES[method],
                    f"{rate:g}",
                    f"{_last(server.path)} {value:g}",
                    _told(short) if short is not None else "beyond the grid",
                    _told(long),
                    _told(second) if again in finals else "",
                    "*" * (spec == best),
                ]
            )
            point = {"method": method, "lr": rate, "setting": server.path, "value": value}
            values.append({**point, "validation": long, "second_seed": second})
    title = f"The finals, CIFAR-10, K = {clusters}: accuracy on the samples set aside, %; * is the best"
    heading = ["", "client rate", "server", f"after {_TRIAL_DAYS:g} days", f"after {_DAYS:g}", "with a second seed", ""]
    return Sheet(f"finals-k{clusters}", title, heading, rows, values)


def _told(found: float | None) -> str:
    return NONE if found is None else f"{100 * found:.2f}"


def _found(spec: Spec, finds: Gathered) -> float | None:
    return finds.runs[spec.name].level if spec.name in finds.runs else None


def _trial_table(clusters: int, methods: Sequence[str], finds: Gathered) -> Sheet:
    rows, values = [], []
    for method in methods:
        server = SERVER[method]
        chosen = {final.changes for final in tuning(clusters, method, finds).finals}
        trials = iter(_trials(clusters, method))
        for rate in RATES.grid:
            row = [TITLES[method], f"{rate:g}"]
            for value, spec in zip(server.grid, trials, strict=False):
                found = _found(spec, finds)
                mark = " *" * (spec.changes in chosen)
                row.append(NONE if found is None else f"{_last(server.path)} {value:g}: {_told(found)}{mark}")
                values.append(
                    {"method": method, "lr": rate, "setting": server.path, "value": value, "validation": found}
                )
            rows.append(row)
    title = f"The trials, CIFAR-10, K = {clusters}: accuracy on the samples set aside, %; * are in the finals"
    heading = ["", "client rate", "lowest", "lower", "higher", "highest"]
    return Sheet(f"trials-k{clusters}", title, heading, rows, values)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


_NOTES = (
    f"{_DAYS:g} virtual days, decay by virtual time. Each method was tuned by {len(RATES.grid) * _OPTIONS} trials of "
    f"{_TRIAL_DAYS:g} days on a tenth of the training samples that was set aside, and by the best of them with each "
    f"client's rate for {_DAYS:g} days; the test set was not looked at. What counts is the mean in the last third of a "
    "run. The best is tried with a second seed, and counts by the mean of both; so is what is better than it with the "
    "same seed, or than that mean. Then the next lower and higher value of what its server has are tried as long, and "
    "beyond an edge of the grid the next client's rate; so it goes on until the best is better than these.",
    "Rates that win a short trial may be too large for a long run, hence the finals; and rates that hold with one seed "
    "may not with another, hence the second. Where the last third of the runs compared is far below their highest, the "
    "rates did not hold all the same, and that difference says little of the methods.",
    *MEANING,
)
FAIR = _exhibit("fair", "the fair comparison: decay by virtual time, every method tuned alike, three seeds", METHODS)
FAIR_NEWER = _exhibit(
    "fair-newer",
    "the fair comparison with three newer algorithms beside them",
    (*METHODS, *NEWER),
    ("FedCompass is left out: it gives the slow less work, and latencies here do not depend on the amount of work.",),
)
