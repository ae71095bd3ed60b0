"""What the lines of a record tell, as values of known types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Line: TypeAlias = dict[str, Any]
"""One line as it stands in the file."""


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
