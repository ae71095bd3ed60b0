"""What passes between the server and a node: a few plain fields, and at most one vector. Nothing is unpickled.

    query.hello   experiment, task, classes            → client, token, examples, task, held orders
    train         an order, whose state to begin with, what may be let go, the model → facts, the vector if asked for
    query.fetch   experiment, order                    → found, the vector
    query.test    experiment, classes, the model       → how many samples are held out, what is measured on them
    query.label   experiment, classes, a packed question → a packed answer, or why it is refused

Neither side trusts the other: whatever is missing, of another type or out of range is a `BadMessageError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from afbs.types import Order, Vector

HELLO, TRAIN, FETCH, TEST, LABEL = "query.hello", "train", "query.fetch", "query.test", "query.label"
_FIELDS, _VECTOR = "afbs", "vector"
_MOST = 2**53
_CLASSES = 2**20
_TOLD = 64
"""How many numbers a training function may return to a server, and how long their names may be."""
_HEADER = 4096
"""Bytes that may stand before the numbers of an array."""
_EXPERIMENT = re.compile(r"[0-9a-f]{16}")


class BadMessageError(ValueError):
    """What came cannot be what was agreed. The text says what is wrong and quotes no data."""


class Hello(NamedTuple):
    experiment: str
    task: str
    classes: int


class Here(NamedTuple):
    """A node's answer: which client it is (the token proves it), and which orders wait on its disk."""

    client: int
    token: str
    examples: int
    task: str
    held: list[int]


class Job(NamedTuple):
    """An order on its way to a node. `state_of` is the order whose end its client remembers, or -1."""

    experiment: str
    order: Order
    upload: bool
    state_of: int
    let_go: list[int]
    classes: int
    hold_bytes: int
    hold_seconds: float


class Done(NamedTuple):
    """What a node says of a finished order; `bytes` is the size of its vector, `told` what its function returned."""

    order: int
    bytes: int
    steps: int
    samples: int
    seconds: float
    told: Mapping[str, float] = {}


def hello(question: Hello) -> RecordDict:
    return _record(question._asdict())


def hello_of(content: RecordDict) -> Hello:
    fields = _fields(content)
    return Hello(_experiment(fields), _text(fields, "task"), _whole(fields, "classes", _CLASSES))


def here(answer: Here) -> RecordDict:
    return _record(answer._asdict())


def here_of(content: RecordDict) -> Here:
    fields = _fields(content)
    held = _wholes(fields, "held")
    token = _text(fields, "token")
    if len(token) < 32:
        raise BadMessageError("the token is too short to prove anything")
    return Here(_whole(fields, "client"), token, _whole(fields, "examples"), _text(fields, "task"), held)


def job(work: Job, model: ArrayRecord) -> RecordDict:
    order = work.order._asdict()
    content = _record({**order, **work._asdict(), "order": work.order.sequence})
    content[_VECTOR] = model
    return content


def job_of(content: RecordDict) -> Job:
    fields = _fields(content)
    numbers = {name: _whole(fields, name) for name in ("client", "version", "occurrence", "sequence")}
    work = {name: _whole(fields, name, 10**6) for name in ("epochs", "steps")}
    order = Order(**numbers, time=_real(fields, "time"), rate=_real(fields, "rate"), **work)
    return Job(
        _experiment(fields),
        order,
        _flag(fields, "upload"),
        _whole(fields, "state_of", least=-1),
        _wholes(fields, "let_go"),
        _whole(fields, "classes", _CLASSES),
        _whole(fields, "hold_bytes"),
        _real(fields, "hold_seconds"),
    )


def done(answer: Done, vector: Vector | None) -> RecordDict:
    fields: dict[str, Any] = {**answer._asdict(), "told": list(answer.told)}
    content = _record({**fields, "numbers": [float(value) for value in answer.told.values()]})
    if vector is not None:
        content[_VECTOR] = packed(vector)
    return content


def done_of(content: RecordDict) -> Done:
    fields = _fields(content)
    numbers = {name: _whole(fields, name) for name in ("order", "bytes", "steps", "samples")}
    return Done(**numbers, seconds=_real(fields, "seconds"), told=_told(fields))


def fetch(experiment: str, order: int) -> RecordDict:
    return _record({"experiment": experiment, "order": order})


def fetch_of(content: RecordDict) -> tuple[str, int]:
    fields = _fields(content)
    return _experiment(fields), _whole(fields, "order")


def test(experiment: str, classes: int, model: ArrayRecord) -> RecordDict:
    content = _record({"experiment": experiment, "classes": classes})
    content[_VECTOR] = model
    return content


def test_of(content: RecordDict) -> int:
    """How many classes there are; the experiment is checked like that of any message."""
    fields = _fields(content)
    _experiment(fields)
    return _whole(fields, "classes", _CLASSES)


def tested(held: int, found: Mapping[str, float]) -> RecordDict:
    return _record({"held": held, "told": list(found), "numbers": [float(value) for value in found.values()]})


def tested_of(content: RecordDict, metrics: Sequence[str]) -> Mapping[str, float] | None:
    """What was measured, by name; None if nothing is held out. A number that ran away is still an answer."""
    fields = _fields(content)
    if not _whole(fields, "held"):
        return None
    found = _told(fields)
    if set(found) != set(metrics):
        raise BadMessageError("it did not measure what was agreed")
    return found


def label(experiment: str, classes: int, question: bytes) -> RecordDict:
    return _record({"experiment": experiment, "classes": classes, "question": question})


def label_of(content: RecordDict) -> tuple[str, int, bytes]:
    fields = _fields(content)
    return _experiment(fields), _whole(fields, "classes", _CLASSES), _bytes(fields, "question")


def labelled(answer: bytes, refused: str = "") -> RecordDict:
    return _record({"answer": answer, "refused": refused[:200]})


def labelled_of(content: RecordDict) -> tuple[bytes, str]:
    fields = _fields(content)
    return _bytes(fields, "answer"), _text(fields, "refused", 200)


def packed(vector: Vector) -> ArrayRecord:
    return ArrayRecord({_VECTOR: Array(np.ascontiguousarray(vector, np.float32))})


def has_vector(content: RecordDict) -> bool:
    return _VECTOR in content


def vector_of(content: RecordDict, size: int | None) -> Vector:
    """The one vector in a message, of exactly `size` numbers where that is known.

    Its header is read before any memory is taken, so what a header promises costs nothing.
    """
    record = content.get(_VECTOR)
    if not isinstance(record, ArrayRecord) or list(record) != [_VECTOR]:
        raise BadMessageError("there is not exactly one vector")
    array = record[_VECTOR]
    if array.stype != "numpy.ndarray":
        raise BadMessageError("the vector is not written as numpy does")
    if size is not None and len(array.data) > 4 * size + _HEADER:
        raise BadMessageError("the vector is too long")
    file = BytesIO(array.data)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=_HEADER)
    except (ValueError, OSError, SyntaxError):
        raise BadMessageError("the vector has no readable header") from None
    numbers = memoryview(array.data)[file.tell() :]
    if dtype != np.dtype("<f4") or len(shape) != 1 or len(numbers) != 4 * shape[0]:
        raise BadMessageError("the vector is not one row of float32")
    if size is not None and shape != (size,):
        raise BadMessageError(f"the vector has {shape[0]} numbers, and the model has {size}")
    return np.frombuffer(numbers, np.float32)


def _record(fields: Mapping[str, Any]) -> RecordDict:
    return RecordDict({_FIELDS: ConfigRecord(dict(fields))})


def _fields(content: RecordDict) -> Mapping[str, Any]:
    fields = content.get(_FIELDS)
    if not isinstance(fields, ConfigRecord):
        raise BadMessageError("it is no message of afbs")
    return fields


def _whole(fields: Mapping[str, Any], name: str, most: int = _MOST, least: int = 0) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= most:
        raise BadMessageError(f"`{name}` is not a whole number from {least} to {most}")
    return value


def _wholes(fields: Mapping[str, Any], name: str) -> list[int]:
    values = fields.get(name)
    if type(values) is not list or any(type(value) is not int or not 0 <= value <= _MOST for value in values):
        raise BadMessageError(f"`{name}` is not a list of whole numbers")
    return values


def _real(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if type(value) is not float or not 0 <= value < float("inf"):
        raise BadMessageError(f"`{name}` is not a number from 0 on")
    return value


def _told(fields: Mapping[str, Any]) -> dict[str, float]:
    names, numbers = fields.get("told", []), fields.get("numbers", [])
    if type(names) is not list or type(numbers) is not list or not len(names) == len(numbers) <= _TOLD:
        raise BadMessageError("`told` is not a few names with a number each")
    if any(type(name) is not str or len(name) > _TOLD for name in names) or set(map(type, numbers)) - {float}:
        raise BadMessageError("`told` is not a few names with a number each")
    return dict(zip(names, numbers, strict=True))


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if type(value) is not bool:
        raise BadMessageError(f"`{name}` is neither true nor false")
    return value


def _text(fields: Mapping[str, Any], name: str, most: int = 128) -> str:
    value = fields.get(name)
    if type(value) is not str or len(value) > most:
        raise BadMessageError(f"`{name}` is not a short text")
    return value


def _bytes(fields: Mapping[str, Any], name: str) -> bytes:
    value = fields.get(name)
    if type(value) is not bytes:
        raise BadMessageError(f"`{name}` is not made of bytes")
    return value


def _experiment(fields: Mapping[str, Any]) -> str:
    """Nodes name files by it, so nothing but these letters may come."""
    value = _text(fields, "experiment")
    if not _EXPERIMENT.fullmatch(value):
        raise BadMessageError("`experiment` is not 16 hexadecimal digits")
    return value
