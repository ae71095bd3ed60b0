"""An event as a line of the record: the one place that says how each is written.

What a plan is told and what it decides are lines, so the lines are enough to decide everything again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afbs.types import (
    Arrived,
    Decided,
    Dispatched,
    Event,
    Joined,
    Left,
    Looked,
    Lost,
    Returned,
    Stopped,
    Update,
    Woken,
)

TOLD = ("arrival", "lost", "returned", "joined", "woken")
"""The lines of what a plan was told. What it was told at one instant has the same time, and no other instant has it."""
PLANNED = ("dispatch", "look", "left", "step", *TOLD)
"""The lines of what a plan was told and what it decided."""


def line_of(event: Event) -> dict[str, Any]:
    """What is written of an event that is not a step."""
    match event:
        case Dispatched(time, order):
            amount = {"epochs": order.epochs} if order.epochs else {"steps": order.steps} if order.steps else {}
            return {
                "event": "dispatch",
                "time": time,
                "client": order.client,
                "version": order.version,
                "sequence": order.sequence,
                "rate": order.rate,
                **amount,
            }
        case Arrived(time, update):
            return {
                "event": "arrival",
                "time": time,
                "client": update.client,
                "base_version": update.base_version,
                "version": update.version,
                "examples": update.examples,
                "order": update.order.sequence,
            }
        case Looked(time, update, facts):
            return {"event": "look", "time": time, "order": update.order.sequence, "facts": dict(facts)}
        case Lost(time, order):
            return {"event": "lost", "time": time, "client": order.client, "order": order.sequence}
        case Left(time, client):
            return {"event": "left", "time": time, "client": client}
        case Returned(time, client):
            return {"event": "returned", "time": time, "client": client}
        case Joined(time, client):
            return {
                "event": "joined",
                "time": time,
                "client": client.id,
                "examples": client.examples,
                "cluster": client.cluster,
            }
        case Woken(time):
            return {"event": "woken", "time": time}
        case Stopped(time, reason):
            return {"event": "end", "time": time, "reason": reason}
        case Decided():
            return step_line(event)


def step_line(decided: Decided, rejected: Sequence[Update] = (), missing: Sequence[Update] = ()) -> dict[str, Any]:
    """What is written of a step: as it was taken, and who should have been part of it."""
    time, version, step = decided
    number = len(step.used)
    used: dict[str, Any] = _columns(step.used)
    used["weight"] = [float(f"{weight:.6g}") for weight in step.weights]
    dropped = _columns(step.dropped)
    if step.why:
        used["why"], dropped["why"] = list(step.why[:number]), list(step.why[number:])
    return {
        "event": "step",
        "time": time,
        "version": version,
        "used": used,
        "dropped": dropped,
        "rejected": [update.order.sequence for update in rejected],
        "missing": [update.order.sequence for update in missing],
        "notes": dict(step.notes),
    }


def same(planned: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Whether a line says what was planned. A recorded step may lack updates whose vectors could not be used."""
    if planned["event"] != "step" or not (recorded.get("rejected") or recorded.get("missing")):
        return all(recorded.get(name) == value for name, value in planned.items())
    used, unfit = recorded["used"]["order"], {*recorded["rejected"], *recorded["missing"]}
    return (
        all(recorded.get(name) == planned[name] for name in ("event", "time", "version", "notes"))
        and _filled(recorded["dropped"]) == _filled(planned["dropped"])
        and [order for order in planned["used"]["order"] if order not in unfit] == used
        and unfit <= set(planned["used"]["order"])
    )


def _filled(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Without those that are empty: a step of which no update is left gives no reasons, not even an empty column."""
    return {name: column for name, column in columns.items() if column}


def _columns(updates: Sequence[Update]) -> dict[str, Any]:
    return {
        "client": [update.client for update in updates],
        "staleness": [update.staleness for update in updates],
        "examples": [update.examples for update in updates],
        "order": [update.order.sequence for update in updates],
    }
