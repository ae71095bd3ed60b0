"""What the paper's claim rests on: the selection, the step size, or the decay? CIFAR-10, three seeds, paired tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from afbs.reproduce.choice import Choice
from afbs.reproduce.comparing import MEANING, compared
from afbs.reproduce.exhibits.clustering import WITHOUT
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.spec import GLOROT, METHODS, TITLES, Spec

_DAYS = 3.0
_SEEDS = (1, 2, 3)
_BY_TIME = (("training.lr_decay_unit", "virtual_time"),)
_EQUAL = (("partition.name", "afbs.reproduce.variants:EqualVolumes"), ("partition.volume_sigma", 0.0))


class Contender(NamedTuple):
    """A row of a table, and the row of the same table that it is tested against."""

    title: str
    method: str
    changes: tuple[tuple[str, Any], ...] = ()
    against: str = ""
    from_clusters: int = 1
    """With fewer clusters than this it would be another row once more."""


class Question(NamedTuple):
    """One table: several arms, which answer one question."""

    name: str
    title: str
    clusters: tuple[int, ...]
    arms: tuple[Contender, ...]


QUESTIONS = (
    Question(
        "step",
        "Is it the selection or the step size?",
        (1, 3),
        (
            Contender("FedBuff", "fedbuff", (), "AFBS"),
            Contender("AFBS", "afbs", (), "FedBuff"),
            Contender(
                "(a) FedBuff, all weighed by the freshest", "fedbuff", (("algorithm.staleness", "freshest"),), "AFBS"
            ),
            Contender("(d) FedBuff, server rate 2", "fedbuff", (("algorithm.server_lr", 2.0),), "AFBS"),
            Contender("(d) FedBuff, server rate 3", "fedbuff", (("algorithm.server_lr", 3.0),), "AFBS"),
            Contender("(b) AFBS, as many dropped by lot", "afbs", (("algorithm.drop", "random"),), "AFBS"),
            Contender("(c) AFBS, FedBuff's weights", "afbs", (("algorithm.weights", "each"),), "FedBuff"),
        ),
    ),
    Question(
        "start",
        "And from Glorot and Bengio's weights?",
        (1, 3),
        (
            Contender("FedBuff", "fedbuff", (GLOROT,), "AFBS"),
            Contender("AFBS", "afbs", (GLOROT,), "FedBuff"),
            Contender("(d) FedBuff, server rate 3", "fedbuff", (GLOROT, ("algorithm.server_lr", 3.0)), "AFBS"),
            Contender("(c) AFBS, FedBuff's weights", "afbs", (GLOROT, ("algorithm.weights", "each")), "FedBuff"),
        ),
    ),
    Question(
        "clusters",
        "Does clustering help?",
        (3, 5),
        (
            Contender("AFBS without clustering", "afbs", WITHOUT),
            Contender("AFBS", "afbs", (), "AFBS without clustering"),
            Contender("AFBS, server rate 1.33", "afbs", (("algorithm.server_lr", 1.33),), "AFBS without clustering"),
        ),
    ),
    Question(
        "decay",
        "What does the unit of the decay do?",
        (1, 3),
        tuple(
            arm
            for method in METHODS
            for arm in (
                Contender(f"{TITLES[method]}, an update", method),
                Contender(f"(e) {TITLES[method]}, virtual time", method, _BY_TIME, f"{TITLES[method]}, an update"),
            )
        ),
    ),
    Question(
        "survival",
        "Does a second chance matter?",
        (1, 3),
        (
            Contender("AFBS", "afbs"),
            Contender("(f) AFBS, no second chance", "afbs", (("algorithm.survival", "none"),), "AFBS"),
            Contender("(f) AFBS, a chance within the cluster", "afbs", (("algorithm.survival", "cluster"),), "AFBS", 3),
        ),
    ),
    Question(
        "volumes",
        "And where clients have equally much data?",
        (1, 3),
        (
            Contender("(g) FedBuff, equal volumes", "fedbuff", _EQUAL),
            Contender("(g) AFBS, equal volumes", "afbs", _EQUAL, "(g) FedBuff, equal volumes"),
        ),
    ),
)
"""In the order in which they are run."""


def specs(choice: Choice) -> list[Spec]:
    return [spec for question, clusters in _asked(choice) for spec in _runs(question, clusters, choice)]


def _asked(choice: Choice) -> Iterator[tuple[Question, int]]:
    for question in QUESTIONS:
        yield from ((question, clusters) for clusters in question.clusters if choice.takes("cifar10", clusters))


def _runs(question: Question, clusters: int, choice: Choice) -> list[Spec]:
    wanted = [_spec(arm, clusters) for arm in _arms(question, clusters, choice)]
    return list(choice.with_seeds(wanted, _SEEDS))


def _arms(question: Question, clusters: int, choice: Choice) -> list[Contender]:
    return [arm for arm in question.arms if arm.method in choice.of(METHODS) and clusters >= arm.from_clusters]


def _spec(arm: Contender, clusters: int) -> Spec:
    return Spec("cifar10", clusters, arm.method, days=_DAYS, changes=arm.changes)


def _page(choice: Choice, finds: Gathered) -> Page:
    tables: list[Sheet] = []
    for question, clusters in _asked(choice):
        arms = {
            arm.title: known(list(choice.with_seeds([_spec(arm, clusters)], _SEEDS)), finds)
            for arm in _arms(question, clusters, choice)
        }
        against = {arm.title: arm.against for arm in question.arms}
        heading, rows, values = compared(arms, against)
        title = f"{question.title} CIFAR-10, K = {clusters}"
        tables.append(Sheet(f"{question.name}-k{clusters}", title, heading, rows, values))
    notes = (
        *MEANING,
        "Hours are virtual, to 50 %. LeNet-5 starts from torch's own weights unless a table says others.",
    )
    title = "Ablations: the selection, the step size, or the decay?"
    return made("ablations", title, tables, specs(choice), finds, notes)


ABLATIONS = Exhibit("ablations", "is the gain the selection, the step size, or the decay? three seeds", specs, _page)
