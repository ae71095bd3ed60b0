"""The fair comparison: the learning rate falls with virtual time for everybody, and everybody is tuned alike.

Twelve points of a grid for each method, the client's rate and what its server has in place of one, tried for a while
on a tenth of the training samples that is set aside; the best of each client's rate for as long as a run lasts, because
a rate that wins a short trial may go to pieces in a long one. Where the best of these is at an edge of the grid, the
point beyond it is tried as long, and so on while that is better: a grid that lies amiss says nothing of a method. Then
the best on the test set, with three seeds. A grid and no search: nothing is drawn, and nobody has more luck than
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from afbs.reproduce.choice import Choice
from afbs.reproduce.comparing import MEANING, compared
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import NONE, Page, Sheet
from afbs.reproduce.spec import METHODS, NEWER, TITLES, TO_THE_END, Spec

_DAYS, _TRIAL_DAYS = 5.0, 1.5
_SEEDS = (1, 2, 3)
_TRIAL_SEED = 11
_CLUSTERS = (1, 5)
_BY_TIME = ("training.lr_decay_unit", "virtual_time")


class Ladder(NamedTuple):
    """A setting and its values: those of the grid, and from its ends outward those beyond."""

    path: str
    grid: tuple[Any, ...]
    below: tuple[Any, ...] = ()
    above: tuple[Any, ...] = ()

    def beyond(self, value: Any) -> list[Any]:
        """The next one outward, if this is at an end of the grid or outside, and if there is one."""
        outward = [ladder for ladder in ((self.grid[0], *self.below), (self.grid[-1], *self.above)) if value in ladder]
        return [following for ladder in outward for following in ladder[ladder.index(value) + 1 :][:1]]


RATES = Ladder("training.lr", (0.01, 0.03, 0.1), (0.003, 0.001), (0.3, 1.0))
_SERVER_LR = Ladder("algorithm.server_lr", (0.5, 1.0, 2.0, 4.0), (0.25, 0.125), (8.0, 16.0))
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


def _finals(clusters: int, method: str, finds: Gathered) -> list[Spec]:
    """As long as a run: the best trial of each client's rate, once every trial has ended; and while the best of these
    is at an edge, what lies beyond it."""
    trials = _trials(clusters, method)
    if len(known(trials, finds)) < len(trials):
        return []
    finals = [
        replace(_best([spec for spec in trials if (RATES.path, rate) in spec.changes], finds), days=_DAYS)
        for rate in RATES.grid
    ]
    while further := [spec for spec in _beyond(finals, finds) if spec not in finals]:
        finals += further
    return finals


def _beyond(finals: Sequence[Spec], finds: Gathered) -> list[Spec]:
    """The points beyond the edges at which the best of these is, once all of them have ended."""
    if len(known(finals, finds)) < len(finals):
        return []
    best = _best(finals, finds)
    changes = dict(best.changes)
    return [
        replace(best, changes=tuple({**changes, ladder.path: value}.items()))
        for ladder in (RATES, SERVER[best.method])
        for value in ladder.beyond(changes[ladder.path])
    ]


def _best(specs: Sequence[Spec], finds: Gathered) -> Spec:
    return max(specs, key=lambda spec: finds.runs[spec.name].level)


def tuned(clusters: int, method: str, finds: Gathered) -> Spec | None:
    """The best of a method's finals, once all of them have ended."""
    finals = _finals(clusters, method, finds)
    if not finals or len(known(finals, finds)) < len(finals):
        return None
    changes = _best(finals, finds).changes
    return Spec("cifar10", clusters, method, days=_DAYS, changes=tuple(c for c in changes if c != _SET_ASIDE))


def _asked(choice: Choice) -> list[int]:
    return [clusters for clusters in _CLUSTERS if choice.takes("cifar10", clusters)]


def _exhibit(name: str, title: str, methods: Sequence[str], notes: Sequence[str] = ()) -> Exhibit:
    def specs(choice: Choice) -> list[Spec]:
        """The trials; their seed is none of those that are compared."""
        points = product(_asked(choice), choice.of(methods))
        return [spec for clusters, method in points for spec in _trials(clusters, method)]

    def then(choice: Choice, finds: Gathered) -> list[Spec]:
        points = list(product(_asked(choice), choice.of(methods)))
        finals = [spec for clusters, method in points for spec in _finals(clusters, method, finds)]
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
        best = tuned(clusters, method, finds)
        for spec in _finals(clusters, method, finds):
            changes, runs = dict(spec.changes), known([spec], finds)
            rate, value = changes[RATES.path], changes[server.path]
            short = known([replace(spec, days=_TRIAL_DAYS)], finds)
            is_best = best is not None and set(best.changes) < set(spec.changes)
            found = runs[0].level if runs else None
            rows.append(
                [
                    TITLES[method],
                    f"{rate:g}",
                    f"{_last(server.path)} {value:g}",
                    f"{100 * short[0].level:.2f}" if short else "beyond the grid",
                    f"{100 * found:.2f}{' *' * is_best}" if found is not None else NONE,
                ]
            )
            values.append({"method": method, "lr": rate, "setting": server.path, "value": value, "validation": found})
    title = f"The finals, CIFAR-10, K = {clusters}: accuracy on the samples set aside, %; * is the best"
    heading = ["", "client rate", "server", f"after {_TRIAL_DAYS:g} days", f"after {_DAYS:g} days"]
    return Sheet(f"finals-k{clusters}", title, heading, rows, values)


def _trial_table(clusters: int, methods: Sequence[str], finds: Gathered) -> Sheet:
    rows, values = [], []
    for method in methods:
        server = SERVER[method]
        chosen = {final.changes for final in _finals(clusters, method, finds)}
        trials = iter(_trials(clusters, method))
        for rate in RATES.grid:
            row = [TITLES[method], f"{rate:g}"]
            for value, spec in zip(server.grid, trials, strict=False):
                runs = known([spec], finds)
                mark = " *" * (spec.changes in chosen)
                row.append(f"{_last(server.path)} {value:g}: {100 * runs[0].level:.2f}{mark}" if runs else NONE)
                found = runs[0].level if runs else None
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
    f"client's rate for {_DAYS:g} days; the test set was not looked at. The best is that with the highest mean in its "
    "last third. While it is at an edge of the grid, what lies beyond that edge is tried as well.",
    "Rates that win a short trial may be too large for a long run, hence the finals. They have one seed: where the "
    "last third of the runs compared is far below their highest, the rates did not hold with other seeds, and that "
    "difference says nothing of the methods.",
    *MEANING,
)
FAIR = _exhibit("fair", "the fair comparison: decay by virtual time, every method tuned alike, three seeds", METHODS)
FAIR_NEWER = _exhibit(
    "fair-newer",
    "the fair comparison with three newer algorithms beside them",
    (*METHODS, *NEWER),
    ("FedCompass is left out: it gives the slow less work, and latencies here do not depend on the amount of work.",),
)
