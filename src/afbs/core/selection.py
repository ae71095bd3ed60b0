"""Algorithm 2 of the AFBS paper: which buffered updates are worth aggregating.

An update scores V / (τ+1)², with V its client's examples and τ its staleness. In each cluster the best-scoring
update is the yardstick, and an update is inferior if it has both fewer examples and more staleness than that one.
An inferior update still survives with probability score / highest score.

The rule never empties a cluster, never drops the freshest update, and drops nothing where all volumes or all
staleness values are equal: inferior is strict in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afbs.seeds import Key
from afbs.types import UserError

Survival: TypeAlias = Literal["buffer", "cluster", "none"]
"""Over which updates the survival probability is normalised: the whole buffer (as in the paper), the update's own
cluster, or not at all (no inferior update survives)."""

BEST = "best of its cluster"
FRESH = "fresh enough"
LARGE = "large enough"
SURVIVOR = "drawn to survive"
INFERIOR = "staler and smaller than the best"
LUCKY = "kept by lot"
UNLUCKY = "dropped by lot"
DROPPED = frozenset({INFERIOR, UNLUCKY})


def gradient_select(
    examples: ArrayLike,
    staleness: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    survival: Survival = "buffer",
    rng: np.random.Generator | None = None,
) -> NDArray[np.bool_]:
    """Which updates to keep, as a boolean array in the order of the arguments (the order of arrival).

    >>> gradient_select([100, 40, 30, 39], [3, 1, 2, 0], survival="none").tolist()
    [True, True, False, True]
    """
    volumes = _whole_numbers("examples", examples, least=1)
    ages = _whole_numbers("staleness", staleness, least=0)
    groups = [0] * len(volumes) if clusters is None else _whole_numbers("clusters", clusters, least=None)
    if not len(volumes) == len(ages) == len(groups):
        lengths = f"{len(volumes)}, {len(ages)} and {len(groups)}"
        raise UserError(f"`examples`, `staleness` and `clusters` must be equally long, got {lengths}.")
    if not isinstance(survival, str) or survival not in ("buffer", "cluster", "none"):
        raise UserError(f"`survival` must be 'buffer', 'cluster' or 'none', got {survival!r}.")
    if survival != "none" and rng is None:
        raise UserError(f"`rng` is needed: survival={survival!r} is a draw. Pass numpy.random.default_rng(seed).")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise UserError(f"`rng` must be a numpy.random.Generator, got {rng!r}. numpy.random.default_rng(seed) is one.")
    chances = [0.0] * len(volumes) if rng is None else rng.random(len(volumes)).tolist()
    why = judged(volumes, ages, groups, survival, chances.__getitem__)
    return np.array([reason not in DROPPED for reason in why], dtype=bool)


def judged(
    examples: Sequence[int],
    staleness: Sequence[int],
    clusters: Sequence[int],
    survival: Survival,
    chance: Callable[[int], float],
) -> list[str]:
    """Why each update is kept, or dropped, on plain lists; the words in `DROPPED` are those for dropping.

    `chance(i)` is update i's own draw from [0, 1), whether others need theirs or not. A buffer has some ten entries,
    for which lists of ints are several times faster than arrays and compare exactly.
    """
    squares = [(age + 1) * (age + 1) for age in staleness]
    best: dict[int, int] = {}
    for i, cluster in enumerate(clusters):
        leader = best.setdefault(cluster, i)
        mine, other = examples[i] * squares[leader], examples[leader] * squares[i]  # exact: no score is a fraction
        if mine > other or (mine == other and staleness[i] < staleness[leader]):  # a tie goes to the fresher, the first
            best[cluster] = i
    why = []
    for i, cluster in enumerate(clusters):
        leader = best[cluster]
        if i == leader:
            why.append(BEST)
        elif staleness[i] <= staleness[leader]:
            why.append(FRESH)
        else:
            why.append(LARGE if examples[i] >= examples[leader] else INFERIOR)
    if survival == "none":
        return why
    highest = {cluster: examples[i] / squares[i] for cluster, i in best.items()}
    overall = max(highest.values(), default=0.0)
    for i, cluster in enumerate(clusters):
        if why[i] is INFERIOR:
            most = overall if survival == "buffer" else highest[cluster]
            if chance(i) * most < examples[i] / squares[i]:
                why[i] = SURVIVOR
    return why


def drawn_by_lot(why: Sequence[str], key: Key) -> list[str]:
    """As many kept and dropped as in `why`, but any of them: what selection is worth is what this loses."""
    order = sorted(range(len(why)), key=key.uniform)
    return [UNLUCKY if why[i] in DROPPED else LUCKY for i in order]


def _whole_numbers(name: str, values: ArrayLike, least: int | None) -> list[int]:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty((0, 0))
    whole = array.ndim == 1 and array.dtype.kind in "iuf" and bool(np.all(np.isfinite(array)))
    if not whole or not np.all(array == np.floor(array)):
        text = repr(values)
        raise UserError(
            f"`{name}` must be one row of whole numbers, got {text if len(text) <= 100 else text[:97] + '...'}."
        )
    if least is not None and array.size and array.min() < least:
        raise UserError(f"`{name}` must be at least {least}, got {array.min()}.")
    return [int(value) for value in array]
