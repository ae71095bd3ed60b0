"""What workers are given, and what they give back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from afbs.types.numbers import Tallies
from afbs.types.orders import Order


class Train(NamedTuple):
    """Do the order from the vector in slot `base`; what the client ships goes to slot `out`."""

    task: int
    order: Order
    base: int
    out: int


class Fetch(NamedTuple):
    """Bring what the client of this order ships, wherever it was trained, to slot `out`."""

    task: int
    order: Order
    out: int


class Evaluate(NamedTuple):
    """Test the vector in slot `base` on one part of the test set; if `local`, on what some clients hold out."""

    task: int
    base: int
    part: int
    local: bool = False


Assignment: TypeAlias = Train | Fetch | Evaluate


class Shipped(NamedTuple):
    """How a `Train` or a `Fetch` ended. Unless it is `done` its vector must not count.

    Before it, its worker was idle for `waited` seconds. `told` is what a training function of the user's own returned.
    """

    task: int
    outcome: Literal["done", "not finite", "missing"]
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    told: Mapping[str, float] = {}


class Evaluated(NamedTuple):
    """One part of an evaluation is done; `totals` are what its task adds up over parts."""

    task: int
    totals: Tallies
    seconds: float
    waited: float = 0.0


class Score(NamedTuple):
    """What an evaluation found: numbers by name. `details` are told with them, `last` only of the last evaluation."""

    values: Mapping[str, float]
    details: Mapping[str, Any] = {}
    last: Mapping[str, Any] = {}
