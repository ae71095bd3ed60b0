"""The verdict in words: who won, by how much, and why. It claims a victory only where there is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from afbs.report.arms import Arm, Spread
from afbs.report.reasons import about_one, about_several, caveats
from afbs.report.standings import Standing, clear, common_moment, standings
from afbs.report.words import duration, listing, percent, points


@dataclass(frozen=True)
class Story:
    headline: str
    why: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(arms: Sequence[Arm]) -> Story:
    """What the top of the report says."""
    moment = common_moment(arms)
    table = standings(arms, moment)
    if not table:
        return Story("No run has been evaluated yet.", (), tuple(caveats(arms, moment)))
    if len(arms) == 1:
        return Story(_single(arms[0]), tuple(about_one(arms[0])), tuple(caveats(arms, moment)))
    return Story(
        _headline(table, moment), tuple(about_several([row.arm for row in table])), tuple(caveats(arms, moment))
    )


def _headline(table: list[Standing], moment: float | None) -> str:
    first, second, last = table[0], table[1] if len(table) > 1 else table[0], table[-1]
    when = f" after {duration(moment)}" if moment is not None else ""
    if len(table) == 1:
        return f"Only {first.arm.label} has been evaluated: {_accuracy(first.accuracy)}{when}."
    tied = [row for row in table[1:] if not clear(first, row)]
    if tied:
        rest = f"; {last.arm.label} is last with {percent(last.accuracy.mean)}" if last not in tied else ""
        close = listing([f"{row.arm.label} ({percent(row.accuracy.mean)})" for row in tied])
        leader = f"{first.arm.label} leads with {_accuracy(first.accuracy)}{when}"
        seeds = min(len(row.by_seed) for row in (first, *tied))
        if seeds > 1:
            return f"{leader}, but {seeds} seeds leave it open whether that beats {close}{rest}."
        return f"{leader}, but {close} {'is' if len(tied) == 1 else 'are'} too close to call{rest}."
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
    text = f"{arm.label} ended at {_accuracy(final)} after {duration(arm.mean('seconds'))} of {arm.runs[0].clock}"
    return text + (f"; its best was {percent(best.mean)}." if best.mean - final.mean > 0.0005 else ", its best.")
