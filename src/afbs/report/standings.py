"""Who is ahead at the end, and whether by more than chance explains.

What counts is the mean of the last few evaluations, for single ones swing. A lead is clear at the 95 % level:
by Student's t over seeds (seed by seed where both arms have the same ones, for then they share clients and latencies);
with single seeds by the sampling error of the test set and the swing of the evaluations that were averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from afbs.record.columns import Floats
from afbs.report.arms import Arm, Spread
from afbs.report.digest import Digest


class Standing(NamedTuple):
    """An arm's level of the watched metric at the end, by seed; `swing` is the standard error of the evaluations that
    were averaged."""

    arm: Arm
    level: Spread
    by_seed: tuple[tuple[int | None, float], ...]
    swing: float


def common_moment(arms: Sequence[Arm]) -> float | None:
    """The last moment that all runs have been evaluated at, if some went clearly further than others."""
    ends = [float(run.full[0][-1]) for arm in arms for run in arm.runs if len(run.full[0])]
    return min(ends) if ends and max(ends) - min(ends) > 0.02 * max(ends) else None


def last_levels(run: Digest, moment: float | None) -> Floats:
    """The last evaluations (up to `moment`): a quarter of them, five at most, one at least."""
    time, level = run.full
    known = np.isfinite(level) if moment is None else np.isfinite(level) & (time <= moment)
    return level[known][-max(1, min(5, int(known.sum()) // 4)) :]


def standings(arms: Sequence[Arm], moment: float | None) -> list[Standing]:
    """The arms that were evaluated, best first."""
    table = [_standing(arm, moment) for arm in arms]
    return sorted((row for row in table if row.level.number), key=lambda row: -row.arm.metric.sign * row.level.mean)


def _standing(arm: Arm, moment: float | None) -> Standing:
    def level(run: Digest) -> float:
        return _mean(last_levels(run, moment))

    def swing(run: Digest) -> float:
        ends = last_levels(run, moment)
        return float(ends.std(ddof=1)) / math.sqrt(len(ends)) if len(ends) > 1 else 0.0

    return Standing(arm, arm.spread(level), tuple(arm.values(level)), arm.spread(swing).mean)


def clear(first: Standing, second: Standing) -> bool:
    """Whether the first is ahead by more than chance explains."""
    sign = first.arm.metric.sign
    lead = sign * (first.level.mean - second.level.mean)
    mine, other = dict(first.by_seed), dict(second.by_seed)
    if len(mine) > 1 and mine.keys() == other.keys():
        pairs = np.array([mine[seed] - other[seed] for seed in mine])
        return bool(lead > student_t(len(pairs) - 1) * pairs.std(ddof=1) / math.sqrt(len(pairs)))
    fewest = min(len(mine), len(other))
    if fewest > 1:
        errors = (row.level.deviation / math.sqrt(row.level.number) for row in (first, second))
        return lead > student_t(fewest - 1) * math.hypot(*errors)
    return lead > 2 * math.hypot(_single_error(first), _single_error(second))


def student_t(freedom: int) -> float:
    """The two-sided 95 % quantile; above nine degrees of freedom rounded up to that of ten."""
    return (12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27)[freedom - 1] if freedom < 10 else 2.23


def _single_error(row: Standing) -> float:
    """The standard error of one run's level: of the test set, where it is a share, and of the evaluations that were
    averaged."""
    share, size = row.level.mean, row.arm.mean("test_size")
    sampling = math.sqrt(max(share * (1 - share), 1e-4) / size) if row.arm.metric.share and size > 0 else 0.0
    return math.hypot(sampling, row.swing)


def time_to(run: Digest, target: float) -> float | None:
    """Virtual seconds until the first evaluation as good as `target`, or None."""
    reached = run.metric.reached(run.full[1], target)
    return float(run.full[0][reached[0]]) if len(reached) else None


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan
