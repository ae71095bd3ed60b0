"""What the documents of a run folder hold, and the one place where that is checked: `docs/run-folder.md` as types.

A field may be missing, for a run may have been written by an older or a younger library of the same schema. A field
that is there is what it should be; behind this border nobody asks again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypeAlias, TypeVar

from annotated_types import Ge, Le
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

from afbs.types import UserError

SCHEMA = 2
MOST = 2**53
"""Whole numbers up to here are exact everywhere, in JavaScript too."""
LONGEST = 1e15

Whole: TypeAlias = Annotated[int, Ge(-MOST), Le(MOST)]
Number: TypeAlias = Annotated[int, Ge(0), Le(MOST)]
Seconds: TypeAlias = Annotated[float, Ge(0), Le(LONGEST)]
Level: TypeAlias = Annotated[float, Ge(-1e100), Le(1e100)]
_STRICT = ConfigDict(strict=True, extra="allow")


@with_config(_STRICT)
class ClientsTable(TypedDict, total=False):
    """Columns, one entry a client."""

    id: Required[list[Whole]]
    examples: list[Number | None] | None
    cluster: list[Whole | None] | None
    latency: list[Seconds | None] | None
    late: list[bool] | None
    """Whether it was not there from the beginning; where nobody was late, there is no such column."""


def _even(clients: ClientsTable) -> ClientsTable:
    number = len(clients["id"])
    for name in ("examples", "cluster", "latency", "late"):
        column: Any = clients.get(name)
        if column is not None and len(column) != number:
            raise ValueError(f"`{name}` has {len(column)} entries, and there are {number} clients")
    return clients


def _rectangular(rows: list[list[Any]]) -> list[list[Any]]:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows differ in length")
    return rows


@with_config(_STRICT)
class InputTable(TypedDict):
    """What one sample is: its shape, and how many tokens there are if it is made of tokens, else 0."""

    shape: list[Number]
    tokens: Number


@with_config(ConfigDict(strict=True))
class MetricTable(TypedDict, total=False):
    """A number that is measured, as `afbs.metrics.Metric` has it."""

    name: Required[str]
    better: Required[Literal["more", "less"]]
    share: bool
    unit: str
    title: str


@with_config(_STRICT)
class MetaFile(TypedDict, total=False):
    """`meta.json`: what was known when the run began."""

    schema: Required[int]
    name: str
    seed: int | None
    created: str | None
    versions: dict[str, str | None]
    git: str | None
    settings: dict[str, str]
    parameters: Number
    horizon: Annotated[float, Ge(1e-9), Le(LONGEST)]
    classes: Number
    outputs: Number
    """How many numbers the network gives for a sample, or a place in it."""
    metrics: list[MetricTable] | None
    """What is measured, the metric to watch first."""
    class_names: list[str] | None
    input: InputTable | None
    algorithm: str
    title: str | None
    """How the algorithm's name is written."""
    data: str | None
    """The fingerprint of the data."""
    modules: list[str]
    """Where a user's own modules are looked for."""
    adds: bool | None
    """Whether a step is the weighted sum of its updates, so that its weights say how far the model moves."""
    clients: Annotated[ClientsTable, AfterValidator(_even)] | None
    light: bool
    """Whether only the evaluations and the end were kept of `events.jsonl`, as in the results of a sweep."""
    labels: Annotated[list[list[Annotated[float, Ge(0), Le(MOST)]]], AfterValidator(_rectangular)] | None


@with_config(_STRICT)
class ResultFile(TypedDict, total=False):
    """`result.json`: the summary of a run that has ended."""

    metric: str
    """What `best`, `final` and `target` are of."""
    best: Level | None
    final: Level | None
    target: Level | None
    time_to_target: Seconds | None
    versions: Number
    virtual_seconds: Seconds
    updates: dict[str, Number]
    jobs: dict[str, Number]
    evaluations: Number
    upload_bytes: Number
    skipped_upload_bytes: Number
    traffic: dict[str, Number]
    """Bytes that real clients announced, uploaded and were spared, and of models that were sent to them."""
    vector_memory_bytes: Number
    wall: dict[str, Annotated[float, Ge(-LONGEST), Le(LONGEST)] | None]
    sha256: str
    seal: str | None


_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
}
_META = TypeAdapter(MetaFile)
_RESULT = TypeAdapter(ResultFile)
_Document = TypeVar("_Document")


def meta_from(content: bytes, path: Path) -> MetaFile:
    """`meta.json`, if it is of the schema that this version reads."""
    found = _json(content, path)
    schema = found.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        said = "no schema" if schema is None else f"schema {_short(schema)}"
        raise UserError(
            f"`{path}` has {said}; this version of afbs reads schema {SCHEMA}. Read it with the version that wrote it."
        )
    return _checked(_META, found, path)


def result_from(content: bytes, path: Path) -> ResultFile:
    return _checked(_RESULT, _json(content, path), path)


def _json(content: bytes, path: Path) -> dict[str, Any]:
    try:
        found = from_json(content)
    except ValueError as error:
        raise UserError(f"`{path}` is damaged: it is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise UserError(f"`{path}` is damaged: it holds {_short(found)} where a JSON object should be.")
    return found


def _checked(kind: TypeAdapter[_Document], found: dict[str, Any], path: Path) -> _Document:
    try:
        return kind.validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        raise UserError(f"`{path}` is damaged: `{where}` is missing.")
    if first["type"] == "value_error":
        raise UserError(f"`{path}` is damaged: in `{where}`, {first['ctx']['error']}.")
    wanted = _WANTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    raise UserError(f"`{path}` is damaged: `{where}` should be {wanted}, and is {_short(first['input'])}.")


def _short(value: object) -> str:
    """As it stands in the file."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
