"""The verdict in words: who won, by how much, and why, as far as the record tells.

Accuracy at the end is the mean of the last few evaluations, for single ones swing. A claim is made only if the
difference is more than chance explains at the 95 % level: by Student's t over seeds (seed by seed where both arms have
the same ones, for then they share clients and latencies); with single seeds by the sampling error of the test set and
the swing of the evaluations that were averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from afbs.record.reader import Floats
from afbs.report.arms import Arm, Spread, settings_of
from afbs.report.digest import Digest
from afbs.report.words import count, duration, listing, percent, plural, points

_ADDING = ("afbs", "fedbuff", "fedavg")
"""Those whose step is the weighted sum of its updates. Others mix models or add corrections: their weights do not say
how far the model is moved."""


@dataclass(frozen=True)
class Verdict:
    headline: str
    why: tuple[str, ...]
    caveats: tuple[str, ...]


class Standing(NamedTuple):
    """An arm's accuracy at the end, by run; `swing` is the standard error of the evaluations that were averaged."""

    arm: Arm
    accuracy: Spread
    by_seed: tuple[tuple[int | None, float], ...]
    swing: float


def verdict(arms: Sequence[Arm]) -> Verdict:
    """What the top of the report says."""
    moment = common_moment(arms)
    table = standings(arms, moment)
    if not table:
        return Verdict("No run has been evaluated yet.", (), tuple(_caveats(arms, moment)))
    if len(arms) == 1:
        return Verdict(_single(arms[0]), tuple(_alone(arms[0])), tuple(_caveats(arms, moment)))
    return Verdict(_headline(table, moment), tuple(_reasons(table)), tuple(_caveats(arms, moment)))


def common_moment(arms: Sequence[Arm]) -> float | None:
    """The last moment that all runs have been evaluated at, if some went clearly further than others."""
    ends = [float(run.full[0][-1]) for arm in arms for run in arm.runs if len(run.full[0])]
    return min(ends) if ends and max(ends) - min(ends) > 0.02 * max(ends) else None


def last_accuracies(run: Digest, moment: float | None) -> Floats:
    """The last evaluations (up to `moment`): a quarter of them, five at most, one at least."""
    time, accuracy = run.full
    known = np.isfinite(accuracy) if moment is None else np.isfinite(accuracy) & (time <= moment)
    return accuracy[known][-max(1, min(5, int(known.sum()) // 4)) :]


def standings(arms: Sequence[Arm], moment: float | None) -> list[Standing]:
    """The arms that were evaluated, best first."""
    table = [_standing(arm, moment) for arm in arms]
    return sorted((row for row in table if row.accuracy.number), key=lambda row: -row.accuracy.mean)


def _standing(arm: Arm, moment: float | None) -> Standing:
    def level(run: Digest) -> float:
        return _mean(last_accuracies(run, moment))

    def swing(run: Digest) -> float:
        ends = last_accuracies(run, moment)
        return float(ends.std(ddof=1)) / math.sqrt(len(ends)) if len(ends) > 1 else 0.0

    by_seed = tuple((run.seed, level(run)) for run in arm.runs if math.isfinite(level(run)))
    return Standing(arm, arm.spread(level), by_seed, arm.spread(swing).mean)


def clear(first: Standing, second: Standing) -> bool:
    """Whether the first is ahead by more than chance explains."""
    lead = first.accuracy.mean - second.accuracy.mean
    mine, other = dict(first.by_seed), dict(second.by_seed)
    if len(mine) > 1 and mine.keys() == other.keys():
        pairs = np.array([mine[seed] - other[seed] for seed in mine])
        return bool(lead > student_t(len(pairs) - 1) * pairs.std(ddof=1) / math.sqrt(len(pairs)))
    fewest = min(len(mine), len(other))
    if fewest > 1:
        errors = (row.accuracy.deviation / math.sqrt(row.accuracy.number) for row in (first, second))
        return lead > student_t(fewest - 1) * math.hypot(*errors)
    return lead > 2 * math.hypot(_single_error(first), _single_error(second))


def student_t(freedom: int) -> float:
    """The two-sided 95 % quantile; above nine degrees of freedom rounded up to that of ten."""
    return (12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27)[freedom - 1] if freedom < 10 else 2.23


def _single_error(row: Standing) -> float:
    """The standard error of one run's accuracy: of the test set, and of the evaluations that were averaged."""
    share, size = row.accuracy.mean, row.arm.mean("test_size")
    sampling = math.sqrt(max(share * (1 - share), 1e-4) / size) if size > 0 else 0.0
    return math.hypot(sampling, row.swing)


def _headline(table: list[Standing], moment: float | None) -> str:
    first, second, last = table[0], table[1] if len(table) > 1 else table[0], table[-1]
    when = f" after {duration(moment)}" if moment is not None else ""
    if len(table) == 1:
        return f"Only {first.arm.label} has been evaluated: {_accuracy(first.accuracy)}{when}."
    tied = [row for row in table[1:] if not clear(first, row)]
    if tied:
        rest = f"; {last.arm.label} is last with {percent(last.accuracy.mean)}" if last not in tied else ""
        close = listing([f"{row.arm.label} ({percent(row.accuracy.mean)})" for row in tied])
        verb = "is" if len(tied) == 1 else "are"
        leader = f"{first.arm.label} leads with {_accuracy(first.accuracy)}{when}"
        return f"{leader}, but {close} {verb} too close to call{rest}."
    lead = first.accuracy.mean - second.accuracy.mean
    text = f"{first.arm.label} won: {_accuracy(first.accuracy)}{when}, {points(lead)} above {second.arm.label}"
    if len(table) > 2:
        text += f" and {points(first.accuracy.mean - last.accuracy.mean)} above {last.arm.label}"
    return text + "."


def _accuracy(spread: Spread) -> str:
    if math.isfinite(spread.deviation):
        return f"{100 * spread.mean:.1f} ± {100 * spread.deviation:.1f} % accuracy"
    return f"{percent(spread.mean)} accuracy"


def _single(arm: Arm) -> str:
    final, best = arm.fact("final"), arm.fact("best")
    text = f"{arm.label} ended at {_accuracy(final)} after {duration(arm.mean('seconds'))} of virtual time"
    return text + (f"; its best was {percent(best.mean)}." if best.mean - final.mean > 0.0005 else ", its best.")


def _alone(arm: Arm) -> list[str]:
    said = [_selection(arm), _speed([arm])]
    steps, updates = arm.mean("steps"), arm.mean("used")
    if steps:
        each = f"{updates / steps:.1f} updates" if updates / steps > 1.05 else "one update"
        said.append(
            f"The model took {count(steps)} steps of {each} each, "
            f"with a total weight of {arm.mean('scale_mean'):.2f} a step."
        )
    said.append(_starved([arm]))
    return [sentence for sentence in said if sentence]


def _reasons(table: list[Standing]) -> list[str]:
    first, rivals = table[0].arm, [row.arm for row in table[1:]]
    said = [_speed([row.arm for row in table]), _movement(first, rivals), _selection(first)]
    if not first.mean("dropped"):
        said += [_selection(arm) for arm in rivals if arm.mean("dropped")][:1]
    said.append(_starved([first, *rivals]))
    return [sentence for sentence in said if sentence]


def _speed(arms: Sequence[Arm]) -> str:
    """Who was first at the target that the runs name, or at a level that at least two arms reach."""
    named = {run.target for arm in arms for run in arm.runs}
    target = named.pop() if len(named) == 1 else None
    if target is None:
        return ""
    times = []
    for arm in arms:
        took = arm.spread(lambda run: time_to(run, target))
        if took.number == len(arm.runs):
            times.append((took.mean, arm))
    goal = percent(target, 0 if abs(target * 100 - round(target * 100)) < 1e-6 else 1)
    if not times:
        return f"{'No run' if len(arms) > 1 else 'It never'} reached the target of {goal}."
    times.sort(key=lambda pair: pair[0])
    fastest, winner = times[0]
    if len(arms) == 1:
        return f"It reached the target of {goal} after {duration(fastest)}."
    if len(times) == 1:
        return f"Only {winner.label} reached the target of {goal}, after {duration(fastest)}."
    together = [arm.label for took, arm in times if took <= 1.005 * fastest]
    never = [arm.label for arm in arms if all(arm is not other for _, other in times)]
    if len(together) > 1:
        text = f"{listing(together)} reached {goal} first, after {duration(fastest)}"
    else:
        slower, second = times[1]
        text = f"To {goal}, {winner.label} was the fastest with {duration(fastest)}; {second.label} took "
        text += f"{duration(slower)}, {slower / fastest:.1f} times as long" if fastest > 0 else duration(slower)
    return text + (f"; {listing(never)} never got there." if never else ".")


def _movement(first: Arm, rivals: Sequence[Arm]) -> str:
    """How far the model was moved: the steps and their total weight. Only of algorithms that add weighted updates."""
    rival = next((arm for arm in rivals if arm.algorithm in _ADDING and arm.mean("scale_sum") > 0), None)
    if rival is None or first.algorithm not in _ADDING or not first.mean("scale_sum") > 0:
        return ""
    said = []
    for arm in (first, rival):
        steps, weight = count(arm.mean("steps")), arm.mean("scale_mean") * _server_lr(arm)
        said.append(f"{arm.label} took {steps} steps of total weight {weight:.2f}")
    text = f"{said[0]}, {said[1]}"
    ratio = first.mean("scale_sum") * _server_lr(first) / (rival.mean("scale_sum") * _server_lr(rival))
    if rival.algorithm == "fedavg" and first.mean("steps") > 2 * rival.mean("steps"):
        text += f": {rival.label} waits for the slowest of its clients"
    elif ratio > 1.15:
        text += f": {first.label} moved the model {ratio:.1f} times as far, so step size is part of its result"
    elif ratio < 0.87:
        text += f": {first.label} moved the model less, so step size does not explain its result"
    return text + "."


def _server_lr(arm: Arm) -> float:
    settings = arm.runs[0].config.get("algorithm")
    rate = settings.get("server_lr", 1.0) if isinstance(settings, Mapping) else 1.0
    return float(rate) if isinstance(rate, int | float) and rate > 0 else 1.0


def _selection(arm: Arm) -> str:
    used, dropped = arm.mean("used"), arm.mean("dropped")
    if not dropped:
        return ""
    share = dropped / (used + dropped)
    text = f"{arm.label} dropped {percent(share, 0)} of the updates that came in"
    ages = arm.mean("staleness_used"), arm.mean("staleness_all")
    sizes = arm.mean("examples_used"), arm.mean("examples_all")
    text += f": what it kept was {ages[0]:.1f} versions old on average instead of {ages[1]:.1f}"
    text += f" and came from clients with {count(sizes[0])} examples instead of {count(sizes[1])}"
    return text + "."


def _starved(arms: Sequence[Arm]) -> str:
    worst = max(arms, key=lambda arm: arm.mean("never") if arm.mean("never") > 0 else 0)
    never = worst.mean("never")
    if not never > 0:
        return ""
    return (
        f"The price: with {worst.label}, {count(never)} of {count(worst.mean('delivered'))} clients that delivered "
        f"never counted."
    )


def _caveats(arms: Sequence[Arm], moment: float | None) -> list[str]:
    said = []
    runs = [run for arm in arms for run in arm.runs]
    if all(arm.seeds == 1 for arm in arms):
        subject = "each" if len(arms) > 1 else ""
        said.append(
            f"One seed {subject}".strip() + ": another seed can move every number here, and may change the order."
            if len(arms) > 1
            else "One seed: another one can move every number here."
        )
    elif any(arm.seeds < 3 for arm in arms):
        said.append("Fewer than three seeds in some arms: the spread is itself uncertain.")
    if moment is not None:
        said.append(
            f"The runs went differently far; they are compared at {duration(moment)}, which all of them reached."
        )
    unfinished = [run for run in runs if run.state != "ended"]
    if unfinished:
        said.append(f"{plural(len(unfinished), 'run')} did not end: still going, interrupted or killed.")
    tables = sorted({row.path.partition(".")[0] for row in settings_of(arms) if row.differs and _matters(row.path)})
    if tables:
        named = listing([f"[{table}]" for table in tables])
        said.append(f"The runs also differ in their {named} settings, not only in the algorithm.")
    averaged = max((len(last_accuracies(run, moment)) for run in runs), default=1)
    used = f"the mean of the last {averaged} evaluations" if averaged > 1 else "the last evaluation"
    flatters = "Best accuracy is chosen on the test set itself and therefore flatters"
    said.append(f"{flatters}; the verdict uses {used}." if len(arms) > 1 else f"{flatters}.")
    return said


def _matters(path: str) -> bool:
    return path.partition(".")[0] in ("data", "partition", "model", "training", "latency", "availability", "run")


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def time_to(run: Digest, target: float) -> float | None:
    """Virtual seconds until the first evaluation at or above `target`, or None."""
    reached = np.flatnonzero(run.full[1] >= target)
    return float(run.full[0][reached[0]]) if len(reached) else None
