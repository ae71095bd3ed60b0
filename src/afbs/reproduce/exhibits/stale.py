"""The figure "outdated, fresh, standalone": what a buffer is worth of which one tenth, or nine tenths, are stale."""

from __future__ import annotations

from afbs.reproduce.beside import spread
from afbs.reproduce.choice import Choice
from afbs.reproduce.drawing import by_version, drawn
from afbs.reproduce.exhibits.exhibit import Exhibit, Gathered, known, made
from afbs.reproduce.page import Page, Sheet
from afbs.reproduce.spec import Spec

_ROUNDS = 300
_SEEDS = (1, 2, 3)
_SAME = (
    ("latency.low", 60),
    ("latency.high", 60),
    ("run.versions", _ROUNDS),
    ("evaluation.points", 1),
    ("evaluation.every", 5),
)
"""A round takes a minute, whoever takes part."""
_ARMS = {
    "fresh": (("algorithm.fresh", 9), ("algorithm.stale", 1)),
    "outdated": (("algorithm.fresh", 1), ("algorithm.stale", 9)),
    "standalone": (("algorithm.fresh", 1), ("algorithm.stale", 0), ("algorithm.alone", True)),
}


def _arms(choice: Choice) -> dict[str, list[Spec]]:
    if not choice.takes("cifar10", 1):
        return {}
    return {
        arm: list(choice.with_seeds([Spec("cifar10", 1, "aged", days=1.0, changes=(*own, *_SAME))], _SEEDS))
        for arm, own in _ARMS.items()
    }


def specs(choice: Choice) -> list[Spec]:
    return [spec for arm in _arms(choice).values() for spec in arm]


def _page(choice: Choice, finds: Gathered) -> Page:
    arms = {arm: known(wanted, finds) for arm, wanted in _arms(choice).items()}
    rows = [
        [
            arm,
            spread([100 * run.final for run in runs], 2) if runs else "not run",
            spread([100 * run.best for run in runs], 2),
        ]
        for arm, runs in arms.items()
    ]
    values = [
        {"arm": arm, "seed": run.seed, "final": run.final, "highest": run.best}
        for arm, runs in arms.items()
        for run in runs
    ]
    title = f"CIFAR-10, K = 1, after {_ROUNDS} rounds"
    table = Sheet("rounds", title, ["", "final, %", "highest, %"], rows, values)
    figures = drawn("fig-stale", {"CIFAR-10, K = 1": by_version(arms)}) if any(arms.values()) else {}
    notes = (
        "Plain means of ten updates. Stale ones began 10 to 25 rounds before, a few of them up to 30: the upper half "
        "of what the paper's setting has; the paper does not say how old its are. In the first ten rounds nothing is "
        "that old, and steps are made of fresh updates alone. The standalone client is the one in the middle by its "
        "data.",
    )
    return made("fig-stale", "Fresh, outdated and standalone", [table], specs(choice), finds, notes, figures)


FIG_STALE = Exhibit("fig-stale", "what a buffer is worth of which nine tenths are stale", specs, _page)
