"""The verdict in words: who won, by how much, and why. It claims a victory only where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afbs.report.arms import Arm, Spread
from afbs.report.reasons import about_one, about_several, caveats
from afbs.report.standings import Standing, clear, common_moment, standings
from afbs.report.words import duration, gap, level, listing


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
    metric = first.arm.metric
    when = f" after {duration(moment)}" if moment is not None else ""
    if len(table) == 1:
        return f"Only {first.arm.label} has been evaluated: {_level(first.arm, first.level)}{when}."
    tied = [row for row in table[1:] if not clear(first, row)]
    if tied:
        rest = f"; {last.arm.label} is last with {metric.text(last.level.mean)}" if last not in tied else ""
        close = listing([f"{row.arm.label} ({metric.text(row.level.mean)})" for row in tied])
        leader = f"{first.arm.label} leads with {_level(first.arm, first.level)}{when}"
        seeds = min(len(row.by_seed) for row in (first, *tied))
        if seeds > 1:
            return f"{leader}, but {seeds} seeds leave it open whether that beats {close}{rest}."
        return f"{leader}, but {close} {'is' if len(tied) == 1 else 'are'} too close to call{rest}."
    ahead = gap(metric, first.level.mean - second.level.mean)
    text = f"{first.arm.label} won: {_level(first.arm, first.level)}{when}, {ahead} {second.arm.label}"
    if len(table) > 2:
        text += f" and {gap(metric, first.level.mean - last.level.mean)} {last.arm.label}"
    return text + "."


def _level(arm: Arm, spread: Spread) -> str:
    return level(arm.metric, spread.mean, spread.deviation)


def _single(arm: Arm) -> str:
    final, best = arm.fact("final"), arm.fact("best")
    metric = arm.metric
    text = f"{arm.label} ended at {_level(arm, final)} after {duration(arm.mean('seconds'))} of {arm.runs[0].clock}"
    ahead = metric.sign * (best.mean - final.mean) > 0.0005 * (1 if metric.share else abs(best.mean))
    return text + (f"; its best was {metric.text(best.mean)}." if ahead else ", its best.")
