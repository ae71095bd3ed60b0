"""Why it came out as it did, as far as the record tells, and what to be careful about. One sentence a finding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afbs.report.arms import Arm, settings_of
from afbs.report.standings import last_levels, time_to
from afbs.report.words import count, duration, listing, percent, plural


def about_one(arm: Arm) -> list[str]:
    said = [_selection(arm), _speed([arm])]
    steps, updates = arm.mean("steps"), arm.mean("used")
    if steps > 0:
        each = f"{updates / steps:.1f} updates" if updates / steps > 1.05 else "one update"
        weight = arm.mean("scale_mean")
        weighed = f", with a total weight of {weight:.2f} a step" if math.isfinite(weight) else ""
        said.append(f"The model took {count(steps)} steps of {each} each{weighed}.")
    said += [_weakest([arm]), _starved([arm])]
    return [sentence for sentence in said if sentence]


def about_several(arms: Sequence[Arm]) -> list[str]:
    """`arms` best first."""
    first, rivals = arms[0], arms[1:]
    said = [_speed(arms), _movement(first, rivals), _selection(first)]
    if not first.mean("dropped") > 0:
        said += [_selection(arm) for arm in rivals if arm.mean("dropped") > 0][:1]
    said += [_weakest(arms), _starved(arms)]
    return [sentence for sentence in said if sentence]


def _speed(arms: Sequence[Arm]) -> str:
    """Who was first at the target, if all runs name the same one."""
    named = {run.target for arm in arms for run in arm.runs}
    target = named.pop() if len(named) == 1 else None
    if target is None:
        return ""
    took = [(arm.spread(lambda run: time_to(run, target)), arm) for arm in arms]
    times = sorted(((time.mean, arm) for time, arm in took if time.number == arm.seeds), key=lambda pair: pair[0])
    never = [arm.label for time, arm in took if not time.number]
    some = [(arm, f"with {time.number} of {arm.seeds} seeds") for time, arm in took if 0 < time.number < arm.seeds]
    goal = arms[0].metric.text(target, 0 if abs(target * 100 - round(target * 100)) < 1e-6 else 1)
    if not times and some:
        who = "It" if len(arms) == 1 else "Only " + listing([f"{arm.label} ({how})" for arm, how in some])
        return f"{who} reached the target of {goal}{f' {some[0][1]}' if len(arms) == 1 else ''}."
    if not times:
        return f"{'No arm' if len(arms) > 1 else 'It never'} reached the target of {goal}."
    fastest, winner = times[0]
    if len(arms) == 1:
        return f"It reached the target of {goal} after {duration(fastest)}."
    together = [arm.label for time, arm in times if time <= 1.005 * fastest]
    if len(together) > 1:
        text = f"{listing(together)} reached {goal} first, after {duration(fastest)}"
    elif len(times) == 1:
        text = f"{winner.label} reached {goal} after {duration(fastest)}"
    else:
        slower, second = times[1]
        text = f"To {goal}, {winner.label} was the fastest with {duration(fastest)}; {second.label} took "
        text += f"{duration(slower)}, {slower / fastest:.1f} times as long" if fastest > 0 else duration(slower)
    text += "".join(f"; {arm.label} got there {how}" for arm, how in some)
    return text + (f"; {listing(never)} never got there." if never else ".")


def _movement(first: Arm, rivals: Sequence[Arm]) -> str:
    """How far the model was moved: the steps and their total weight. Only where the record says that steps add."""
    if not _adds(first):
        return ""
    rival = next((arm for arm in rivals if _adds(arm)), None)
    if rival is None:
        return ""
    steps, weights = zip(
        *((count(arm.mean("steps")), arm.mean("scale_mean") * arm.runs[0].server_rate) for arm in (first, rival)),
        strict=True,
    )
    text = f"{first.label} took {steps[0]} steps with a total weight of {weights[0]:.2f} each"
    text += f", {rival.label} {steps[1]} with {weights[1]:.2f}"
    far = [arm.mean("scale_sum") * arm.runs[0].server_rate for arm in (first, rival)]
    ratio = far[0] / far[1]
    if ratio > 1.15:
        text += f": {first.label} moved the model {ratio:.1f} times as far, so step size may be part of its result"
    elif ratio < 0.87:
        text += f": {first.label} moved the model less, so step size does not explain its result"
    return text + "."


def _adds(arm: Arm) -> bool:
    """Whether the weights of a step say how far it moves the model; others mix models, or correct them."""
    return arm.runs[0].adds is True and arm.mean("scale_sum") > 0


def _selection(arm: Arm) -> str:
    used, dropped = arm.mean("used"), arm.mean("dropped")
    if not dropped > 0:
        return ""
    share = dropped / (used + dropped)
    text = f"{arm.label} dropped {percent(share, 0)} of the updates that came in"
    ages = arm.mean("staleness_used"), arm.mean("staleness_all")
    sizes = arm.mean("examples_used"), arm.mean("examples_all")
    if math.isfinite(ages[1]):
        text += f": what it kept was {ages[0]:.1f} versions old on average instead of {ages[1]:.1f}"
        text += f" and came from clients with {count(sizes[0])} examples instead of {count(sizes[1])}"
    return text + "."


def _weakest(arms: Sequence[Arm]) -> str:
    """The class that each arm does worst on, if the arms differ much there or one class is hardly known at all."""
    known = [(arm.per_class[np.isfinite(arm.per_class)], arm.label) for arm in arms]
    found = [(float(shares.min()), label) for shares, label in known if len(shares)]
    lows = [low for low, _ in found]
    if not found or (max(lows) - min(lows) < 0.1 and min(lows) > 0.2):
        return ""
    return f"On its weakest class, {listing([f'{label} has {percent(low)}' for low, label in found])}."


def _starved(arms: Sequence[Arm]) -> str:
    worst = max(arms, key=lambda arm: arm.mean("never") if arm.mean("never") > 0 else 0)
    never = worst.mean("never")
    if not never > 0:
        return ""
    sent = f"{count(never)} of {count(worst.mean('delivered'))} clients that delivered updates"
    return f"The price: with {worst.label}, {sent} never had one counted."


def caveats(arms: Sequence[Arm], moment: float | None) -> list[str]:
    said = []
    runs = [run for arm in arms for run in arm.runs]
    if all(arm.seeds == 1 for arm in arms):
        each = "One seed each" if len(arms) > 1 else "One seed"
        order = ", and may change the order" if len(arms) > 1 else ""
        said.append(f"{each}: another seed can move every number here{order}.")
    elif any(arm.seeds < 3 for arm in arms):
        said.append("Fewer than three seeds in some arms: the spread is itself uncertain.")
    if moment is not None:
        said.append(
            f"The runs went differently far; they are compared at {duration(moment)}, which all of them reached."
        )
    unfinished = [run for run in runs if run.state != "ended"]
    if unfinished:
        said.append(f"{plural(len(unfinished), 'run')} did not end: still going, interrupted or killed.")
    light = [run for run in runs if run.light]
    if light:
        kept = f"Of {plural(len(light), 'run')} only the evaluations were kept"
        said.append(f"{kept}: figures about single updates are left out.")
    tables = sorted({row.path.partition(".")[0] for row in settings_of(arms) if row.differs and _matters(row.path)})
    if tables:
        named = listing([f"[{table}]" for table in tables])
        several = len({arm.algorithm for arm in arms}) > 1
        said.append(
            f"The runs also differ in their {named} settings, not only in the algorithm."
            if several
            else f"The arms have the same algorithm and differ in their {named} settings."
        )
    averaged = max((len(last_levels(run, moment)) for run in runs), default=1)
    used = "the last evaluation"
    if averaged > 1:
        used = f"the mean of the last {averaged} evaluations, and “final” in tables is the last one alone"
    flatters = f"Best {arms[0].metric.called} is chosen on the test set itself and therefore flatters"
    said.append(f"{flatters}; the verdict uses {used}." if len(arms) > 1 else f"{flatters}.")
    return said


def _matters(path: str) -> bool:
    return path.partition(".")[0] in ("data", "partition", "model", "training", "latency", "availability", "run")
