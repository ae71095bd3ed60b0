"""The lines of `events.jsonl`, checked: `told` turns what stands there into values of known types, or refuses it.

Written by hand and not with a library, for a run may have a million of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from afbs.record.schema import LONGEST, MOST

Line: TypeAlias = dict[str, Any]
"""One line as it stands in the file."""
_LARGEST = 1e100
_NOT_VALUES = ("event", "time", "version", "wall", "per_class", "clients", "absent", "quantiles")
"""What a line about an evaluation has besides metrics."""


class DispatchLine(NamedTuple):
    time: float
    client: int
    version: int
    order: int


class ArrivalLine(NamedTuple):
    time: float
    client: int
    staleness: int
    examples: int
    order: int


class LostLine(NamedTuple):
    time: float
    client: int
    order: int


class Batch(NamedTuple):
    """Updates that a step used or dropped, as columns. `weight` and `why` are empty where they were not told."""

    client: list[int]
    staleness: list[int]
    examples: list[int]
    order: list[int]
    weight: list[float]
    why: list[str]


class StepLine(NamedTuple):
    """`rejected` and `missing` are how many vectors were not finite, and how many never came."""

    time: float
    version: int
    used: Batch
    dropped: Batch
    rejected: int
    missing: int
    notes: Mapping[str, Any]
    wall: float
    told: Mapping[str, list[float]] = MappingProxyType({})


class EvalLine(NamedTuple):
    """`values` are the metrics by their names; one that was not told, or has run away, is nan."""

    time: float
    version: int
    values: dict[str, float]
    per_class: list[float]
    wall: float


class ClientsLine(NamedTuple):
    """How a model does on what each client holds out: of each metric `mean`, `worst` and `spread`, and deciles of the
    one that is watched."""

    time: float
    version: int
    clients: int
    values: dict[str, dict[str, float]]
    quantiles: list[float]


class JoinedLine(NamedTuple):
    time: float
    client: int
    examples: int
    cluster: int


class LeftLine(NamedTuple):
    time: float
    client: int


class FleetLine(NamedTuple):
    """How real clients stand: how many can be reached, and bytes so far."""

    time: float
    clients: int
    uploaded: int
    spared: int
    sent: int


class ResumeLine(NamedTuple):
    version: int
    wall: float


class EndLine(NamedTuple):
    time: float
    reason: str
    confusion: NDArray[np.int64] | None
    wall: float


class OtherLine(NamedTuple):
    """What no figure is made of: a look, a return, a checkpoint, or what a younger library says."""

    event: str


Told: TypeAlias = (
    DispatchLine
    | ArrivalLine
    | LostLine
    | StepLine
    | EvalLine
    | ClientsLine
    | JoinedLine
    | LeftLine
    | FleetLine
    | ResumeLine
    | EndLine
    | OtherLine
)


def parsed(raw: bytes) -> Line:
    """A line's object, or a ValueError."""
    try:
        line = from_json(raw)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if type(line) is dict and type(line.get("event")) is str:
        return line
    raise ValueError("it is not an object with the field `event`")


def told(line: Line) -> Told:
    """What a line says, or a ValueError that says what is wrong with it."""
    read = _KINDS.get(line["event"])
    try:
        return read(line) if read is not None else OtherLine(line["event"])
    except KeyError as error:
        raise ValueError(f"`{error.args[0]}` is missing") from None


def _dispatch(line: Line) -> DispatchLine:
    time, client = _seconds(line, "time"), _whole(line, "client")
    return DispatchLine(time, client, _number(line, "version"), _number(line, "sequence"))


def _arrival(line: Line) -> ArrivalLine:
    staleness = _number(line, "version") - _number(line, "base_version")
    if staleness < 0:
        raise ValueError("`base_version` is above `version`")
    time, client = _seconds(line, "time"), _whole(line, "client")
    return ArrivalLine(time, client, staleness, _number(line, "examples"), _number(line, "order"))


def _lost(line: Line) -> LostLine:
    return LostLine(_seconds(line, "time"), _whole(line, "client"), _number(line, "order"))


def _joined(line: Line) -> JoinedLine:
    cluster = 0 if line.get("cluster") is None else _whole(line, "cluster")
    return JoinedLine(_seconds(line, "time"), _whole(line, "client"), _number(line, "examples"), cluster)


def _left(line: Line) -> LeftLine:
    return LeftLine(_seconds(line, "time"), _whole(line, "client"))


def _fleet(line: Line) -> FleetLine:
    moved = _object(line["traffic"], "traffic")
    bytes_ = [_number(moved, name) for name in ("uploaded", "spared", "sent")]
    return FleetLine(_seconds(line, "time"), _number(line, "clients"), *bytes_)


def _step(line: Line) -> StepLine:
    return StepLine(
        _seconds(line, "time"),
        _number(line, "version"),
        _batch(line, "used"),
        _batch(line, "dropped"),
        len(_column(line.get("rejected", []), "rejected")),
        len(_column(line.get("missing", []), "missing")),
        _object(line.get("notes", {}), "notes"),
        _wall(line),
        {name: _reals(values, name) for name, values in _object(line["told"], "told").items()}
        if "told" in line
        else {},
    )


def _eval(line: Line) -> EvalLine:
    classes = line.get("per_class") or []
    if type(classes) is not list:
        raise ValueError("`per_class` is not a list")
    values = {name: _known(value, name) for name, value in line.items() if name not in _NOT_VALUES}
    if not values:
        raise ValueError("it says nothing that was measured")
    time, version = _seconds(line, "time"), _number(line, "version")
    return EvalLine(time, version, values, [_share(share, "per_class") for share in classes], _wall(line))


def _clients(line: Line) -> ClientsLine:
    spread = {}
    for name, value in line.items():
        if name not in _NOT_VALUES:
            numbers = _object(value, name)
            spread[name] = {kind: _known(numbers.get(kind), name) for kind in ("mean", "worst", "spread")}
    time, version = _seconds(line, "time"), _number(line, "version")
    return ClientsLine(time, version, _number(line, "clients"), spread, _reals(line.get("quantiles", []), "quantiles"))


def _resume(line: Line) -> ResumeLine:
    return ResumeLine(_number(line, "version"), _wall(line))


def _end(line: Line) -> EndLine:
    reason = line["reason"]
    if type(reason) is not str:
        raise ValueError("`reason` is not a text")
    return EndLine(_seconds(line, "time"), reason, _square(line.get("confusion")), _wall(line))


_KINDS: dict[str, Callable[[Line], Told]] = {
    "dispatch": _dispatch,
    "arrival": _arrival,
    "lost": _lost,
    "joined": _joined,
    "left": _left,
    "fleet": _fleet,
    "step": _step,
    "eval": _eval,
    "clients": _clients,
    "resume": _resume,
    "end": _end,
}


def _batch(line: Line, name: str) -> Batch:
    columns = _object(line[name], name)
    if not columns:
        return Batch([], [], [], [], [], [])
    client = _column(columns["client"], "client", -MOST)
    staleness, examples, order = (_column(columns[name], name) for name in ("staleness", "examples", "order"))
    weight, why = columns.get("weight") or [], columns.get("why") or []
    if type(weight) is not list or type(why) is not list or not set(map(type, why)) <= {str}:
        raise ValueError(f"in `{name}`, `weight` or `why` is not a list")
    sizes = {len(column) for column in (client, staleness, examples, order)}
    if len(sizes) > 1 or not {len(weight), len(why)} <= {0, *sizes}:
        raise ValueError(f"the columns of `{name}` differ in length")
    return Batch(client, staleness, examples, order, [_real(value, "weight") for value in weight], why)


def _column(values: Any, name: str, least: int = 0, most: int = MOST) -> list[int]:
    if type(values) is not list or not set(map(type, values)) <= {int}:
        raise ValueError(f"`{name}` is not a list of whole numbers")
    if values and not least <= min(values) <= max(values) <= most:
        raise ValueError(f"a number in `{name}` is out of range")
    return values


def _object(value: Any, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"`{name}` is not an object")
    return value


def _whole(line: Line, name: str) -> int:
    value = line[name]
    if type(value) is int and -MOST <= value <= MOST:
        return value
    raise ValueError(f"`{name}` is not a whole number")


def _number(line: Line, name: str) -> int:
    value = line[name]
    if type(value) is int and 0 <= value <= MOST:
        return value
    raise ValueError(f"`{name}` is not a whole number from 0 on")


def _real(value: Any, name: str) -> float:
    """Within what can be added up; a loss that has run away is as good as none."""
    if type(value) not in (int, float):
        raise ValueError(f"`{name}` is not a number")
    return float(value) if -_LARGEST < value < _LARGEST else math.nan


def _known(value: Any, name: str) -> float:
    return math.nan if value is None else _real(value, name)


def _reals(values: Any, name: str) -> list[float]:
    if type(values) is not list:
        raise ValueError(f"`{name}` is not a list")
    return [_known(value, name) for value in values]


def _seconds(line: Line, name: str) -> float:
    value = line[name]
    if type(value) in (int, float) and 0 <= value <= LONGEST:
        return float(value)
    raise ValueError(f"`{name}` is not a number of seconds")


def _share(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if type(value) in (int, float) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"`{name}` is not between 0 and 1")


def _wall(line: Line) -> float:
    return math.nan if line.get("wall") is None else _seconds(line, "wall")


def _square(table: Any) -> NDArray[np.int64] | None:
    if table is None:
        return None
    if type(table) is not list or not table:
        raise ValueError("`confusion` is not a table")
    rows = [_column(row, "confusion", 0, 10**12) for row in table]
    if {len(row) for row in rows} != {len(rows)}:
        raise ValueError("`confusion` is not as wide as high")
    return np.array(rows, np.int64)
