"""What an algorithm's methods answered, looked at before it is believed: an author's slip gets a sentence."""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afbs.interfaces import Algorithm
from afbs.types import Ask, ClientId, Memory, Step, Update, UserError, Vector


def wrong(algorithm: Algorithm[Any], method: str, sentence: str) -> UserError:
    """`Mine.receive` (mine.py, line 12) must …"""
    return UserError(f"{place(algorithm, method)} {sentence}")


def place(algorithm: Algorithm[Any], method: str) -> str:
    name = f"`{type(algorithm).__name__}.{method}`"
    try:
        code = inspect.unwrap(getattr(type(algorithm), method))
        file, line = inspect.getsourcefile(code), inspect.getsourcelines(code)[1]
    except (TypeError, OSError, AttributeError):
        return name
    return f"{name} ({Path(file or '?').name}, line {line})"


def pair(algorithm: Algorithm[Any], method: str, answer: Any, second: str) -> UserError:
    """The error for an answer that is not the pair it should be."""
    return wrong(algorithm, method, f"must return two things, the new state and {second}, got {_shape(answer)}.")


def wrong_step(algorithm: Algorithm[Any], method: str, step: Any) -> UserError:
    """The error for a step that is none, or whose updates are not all there to be taken."""
    if not isinstance(step, Step):
        return wrong(algorithm, method, f"must return a `Step` or None as its second answer, got {_shape(step)}.")
    for name in ("used", "dropped"):
        updates = getattr(step, name)
        if not isinstance(updates, tuple) or not all(isinstance(update, Update) for update in updates):
            return wrong(algorithm, method, f"must give `Step.{name}` as a tuple of updates, got {_shape(updates)}.")
    taken = [*step.used, *step.dropped]
    if not taken:
        return wrong(algorithm, method, "returned a step that takes no update; None is no step.")
    times = Counter(update.sequence for update in taken)
    for update in taken:
        if times[update.sequence] > 1:
            return wrong(algorithm, method, f"names an update twice in one step: {_called(update)}.")
    known = ", ".join(_called(update) for update in taken[:3])
    return wrong(algorithm, method, f"names an update that an earlier step has used or dropped; among {known}.")


def checked_extras(algorithm: Algorithm[Any], method: str, step: Step) -> None:
    """What a step says besides its updates."""
    if step.why and len(step.why) != len(step.used) + len(step.dropped):
        number = len(step.used) + len(step.dropped)
        raise wrong(algorithm, method, f"gives {len(step.why)} reasons (`Step.why`) for {number} updates.")
    if step.notes:
        try:
            json.dumps(dict(step.notes), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise wrong(algorithm, method, f"has notes that cannot be written as JSON: {error}.") from None


def checked_weights(algorithm: Algorithm[Any], weights: Any, number: int) -> tuple[float, ...]:
    """As many finite numbers as there are updates."""
    try:
        if type(weights) is tuple and len(weights) == number and math.isfinite(sum(weights)):
            return weights
        found = tuple(float(weight) for weight in weights)
    except (TypeError, ValueError):
        raise wrong(algorithm, "weigh", f"must return a number for each update, got {_shape(weights)}.") from None
    if len(found) != number or not all(map(math.isfinite, found)):
        raise wrong(algorithm, "weigh", f"must return {number} finite numbers, one an update, got {_short(found)}.")
    return found


def checked_list(algorithm: Algorithm[Any], chosen: Any) -> Sequence[ClientId | Ask]:
    if not isinstance(chosen, list | tuple) or isinstance(chosen, Ask):
        raise wrong(algorithm, "dispatch", f"must return a list of clients as its second answer, got {_shape(chosen)}.")
    return chosen


def checked_ask(algorithm: Algorithm[Any], ask: Any) -> Ask:
    """A client, or a client with an amount of work."""
    if isinstance(ask, Ask):
        amounts = ask.epochs, ask.steps
        if not all(isinstance(amount, int) and amount >= 0 for amount in amounts) or all(amounts):
            raise wrong(algorithm, "dispatch", f"must ask for so many epochs or so many steps, got {ask}.")
        return ask
    if not isinstance(ask, int | np.integer) or isinstance(ask, bool):
        raise wrong(algorithm, "dispatch", f"must name clients by their number, got {_short(ask)}.")
    return Ask(int(ask))


def checked_moment(algorithm: Algorithm[Any], moment: Any) -> float:
    if isinstance(moment, bool) or not isinstance(moment, int | float | np.number) or math.isnan(moment):
        raise wrong(algorithm, "wake", f"must return a moment in seconds, or None, got {_short(moment)}.")
    return float(moment)


def checked_memory(algorithm: Algorithm[Any], method: str, memory: Any) -> Memory:
    """Arrays under names, read-only from now on. Numbers become arrays of no dimension, as a checkpoint holds them."""
    if not isinstance(memory, dict):
        raise wrong(algorithm, method, f"must return its memory as a dictionary of arrays, got {_shape(memory)}.")
    kept: Memory = {}
    for name, value in memory.items():
        array = np.asarray(value)
        if not isinstance(name, str) or array.dtype.kind not in "bif":
            raise wrong(
                algorithm,
                method,
                f"must remember numbers and arrays of numbers under names; {name!r} is {_shape(value)}.",
            )
        kept[name] = lent(array)
    return kept


def checked_model(algorithm: Algorithm[Any], answer: Any, size: int) -> tuple[Any, Vector]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise wrong(algorithm, "apply", f"must return two things, its memory and the model, got {_shape(answer)}.")
    memory, params = answer
    if not isinstance(params, np.ndarray) or params.shape != (size,) or params.dtype != np.float32:
        raise wrong(algorithm, "apply", f"must return a model of {size} float32 numbers, got {_shape(params)}.")
    return memory, params


def checked_facts(algorithm: Algorithm[Any], facts: Any) -> Mapping[str, Any]:
    """As they will be when they are read from the record again."""
    if not isinstance(facts, Mapping):
        raise wrong(algorithm, "look", f"must return its facts as a dictionary, got {_shape(facts)}.")
    try:
        return dict(json.loads(json.dumps(dict(facts), allow_nan=False, default=_plain)))
    except (TypeError, ValueError) as error:
        raise wrong(algorithm, "look", f"must return finite numbers and lists of them under names: {error}.") from None


def lent(array: Any) -> Any:
    """A view that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a number")


def _shape(value: Any) -> str:
    """What something is, in a few words."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    if isinstance(value, tuple | list) and not isinstance(value, Step | Update):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else _shape(value)


def _called(update: Update) -> str:
    return f"client {update.client}'s of {update.time:g} s"
