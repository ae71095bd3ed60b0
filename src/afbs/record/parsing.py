"""The lines of `events.jsonl`, checked: `told` turns what stands there into values of known types, or refuses it.

Written by hand and not with a library, for a run may have a million of them.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic_core import from_json

from afbs.record._checks import (
    as_column,
    as_known,
    as_number,
    as_object,
    as_real,
    as_reals,
    as_seconds,
    as_share,
    as_square,
    as_wall,
    as_whole,
)
from afbs.record.kinds import (
    ArrivalLine,
    Batch,
    ClientsLine,
    DispatchLine,
    EndLine,
    EvalLine,
    FleetLine,
    JoinedLine,
    LeftLine,
    Line,
    LostLine,
    OtherLine,
    ResumeLine,
    StepLine,
    Told,
)
from afbs.record.schema import MOST

_NOT_VALUES = ("event", "time", "version", "wall", "per_class", "clients", "absent", "quantiles")
"""What a line about an evaluation has besides metrics."""


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
    time, client = as_seconds(line, "time"), as_whole(line, "client")
    return DispatchLine(time, client, as_number(line, "version"), as_number(line, "sequence"))


def _arrival(line: Line) -> ArrivalLine:
    staleness = as_number(line, "version") - as_number(line, "base_version")
    if staleness < 0:
        raise ValueError("`base_version` is above `version`")
    time, client = as_seconds(line, "time"), as_whole(line, "client")
    return ArrivalLine(time, client, staleness, as_number(line, "examples"), as_number(line, "order"))


def _lost(line: Line) -> LostLine:
    return LostLine(as_seconds(line, "time"), as_whole(line, "client"), as_number(line, "order"))


def _joined(line: Line) -> JoinedLine:
    cluster = 0 if line.get("cluster") is None else as_whole(line, "cluster")
    return JoinedLine(as_seconds(line, "time"), as_whole(line, "client"), as_number(line, "examples"), cluster)


def _left(line: Line) -> LeftLine:
    return LeftLine(as_seconds(line, "time"), as_whole(line, "client"))


def _fleet(line: Line) -> FleetLine:
    moved = as_object(line["traffic"], "traffic")
    bytes_ = [as_number(moved, name) for name in ("uploaded", "spared", "sent")]
    return FleetLine(as_seconds(line, "time"), as_number(line, "clients"), *bytes_)


def _step(line: Line) -> StepLine:
    return StepLine(
        as_seconds(line, "time"),
        as_number(line, "version"),
        _batch(line, "used"),
        _batch(line, "dropped"),
        len(as_column(line.get("rejected", []), "rejected")),
        len(as_column(line.get("missing", []), "missing")),
        as_object(line.get("notes", {}), "notes"),
        as_wall(line),
        {name: as_reals(values, name) for name, values in as_object(line["told"], "told").items()}
        if "told" in line
        else {},
    )


def _eval(line: Line) -> EvalLine:
    classes = line.get("per_class") or []
    if type(classes) is not list:
        raise ValueError("`per_class` is not a list")
    values = {name: as_known(value, name) for name, value in line.items() if name not in _NOT_VALUES}
    if not values:
        raise ValueError("it says nothing that was measured")
    time, version = as_seconds(line, "time"), as_number(line, "version")
    return EvalLine(time, version, values, [as_share(share, "per_class") for share in classes], as_wall(line))


def _clients(line: Line) -> ClientsLine:
    spread = {}
    for name, value in line.items():
        if name not in _NOT_VALUES:
            numbers = as_object(value, name)
            spread[name] = {kind: as_known(numbers.get(kind), name) for kind in ("mean", "worst", "spread")}
    time, version = as_seconds(line, "time"), as_number(line, "version")
    return ClientsLine(
        time, version, as_number(line, "clients"), spread, as_reals(line.get("quantiles", []), "quantiles")
    )


def _resume(line: Line) -> ResumeLine:
    return ResumeLine(as_number(line, "version"), as_wall(line))


def _end(line: Line) -> EndLine:
    reason = line["reason"]
    if type(reason) is not str:
        raise ValueError("`reason` is not a text")
    return EndLine(as_seconds(line, "time"), reason, as_square(line.get("confusion")), as_wall(line))


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
    columns = as_object(line[name], name)
    if not columns:
        return Batch([], [], [], [], [], [])
    client = as_column(columns["client"], "client", -MOST)
    staleness, examples, order = (as_column(columns[name], name) for name in ("staleness", "examples", "order"))
    weight, why = columns.get("weight") or [], columns.get("why") or []
    if type(weight) is not list or type(why) is not list or not set(map(type, why)) <= {str}:
        raise ValueError(f"in `{name}`, `weight` or `why` is not a list")
    sizes = {len(column) for column in (client, staleness, examples, order)}
    if len(sizes) > 1 or not {len(weight), len(why)} <= {0, *sizes}:
        raise ValueError(f"the columns of `{name}` differ in length")
    return Batch(client, staleness, examples, order, [as_real(value, "weight") for value in weight], why)
