"""Arms against each other over seeds: mean and deviation, ranks, and a paired test against the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

Values = Mapping[str, Mapping[int, float]]
"""For each arm, a number for each seed; nan where there is none."""

_ROUNDING = 1e-12
"""Of the values: what is smaller came of computing with floats."""


class Row(NamedTuple):
    """One arm. `rank` is its mean rank over the seeds that all arms have, 1 the best; `p` that of the paired test."""

    mean: float
    deviation: float
    number: int
    rank: float
    difference: float
    p: float


def rows(values: Values, baseline: str | None, test: Literal["t", "wilcoxon"], smaller: bool = False) -> dict[str, Row]:
    """With `smaller`, a smaller number is the better one: a time."""
    ranks = _ranks(values, smaller)
    found = {}
    for arm, by_seed in values.items():
        known = np.array([value for value in by_seed.values() if math.isfinite(value)])
        deviation = float(known.std(ddof=1)) if len(known) > 1 else math.nan
        mean = float(known.mean()) if len(known) else math.nan
        difference = p = math.nan
        if baseline is not None and arm != baseline:
            difference, p = paired(by_seed, values[baseline], test)
        found[arm] = Row(mean, deviation, len(known), ranks[arm], difference, p)
    return found


def paired(
    mine: Mapping[int, float], other: Mapping[int, float], test: Literal["t", "wilcoxon"]
) -> tuple[float, float]:
    """The mean difference seed by seed, and how likely one as large is by chance; nan where it cannot be said."""
    from scipy import stats

    pairs = [(mine[seed], other[seed]) for seed in mine if seed in other]
    pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
    if not pairs:
        return math.nan, math.nan
    left, right = np.array(pairs).T
    gap = left - right
    difference = float(gap.mean())
    rounding = _ROUNDING * np.abs(pairs).max()
    if len(gap) < 2 or np.abs(gap).max() <= rounding:
        return difference, math.nan
    if test == "wilcoxon":
        return difference, float(stats.wilcoxon(np.round(gap / rounding)).pvalue)  # equal ones share a rank
    if np.ptp(gap) <= rounding:
        return difference, math.nan  # all seeds differ by the same: Student's t has no deviation to go by
    return difference, float(stats.ttest_1samp(gap, 0.0).pvalue)


def _ranks(values: Values, smaller: bool) -> dict[str, float]:
    """Mean ranks over the seeds that every arm has; what has no number, such as a target never reached, is last."""
    from scipy import stats

    seeds = set.intersection(*(set(by_seed) for by_seed in values.values())) if values else set()
    if not seeds:
        return dict.fromkeys(values, math.nan)
    sign = 1.0 if smaller else -1.0
    table = np.array([[sign * by_seed[seed] for by_seed in values.values()] for seed in sorted(seeds)])
    table[np.isnan(table)] = math.inf
    means = stats.rankdata(table, axis=1).mean(axis=0)
    return dict(zip(values, map(float, means), strict=True))
