"""A record is held against what is decided again, also where vectors were lost that a step had counted on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from afbs.engine.witness import DifferentlyDecidedError, Witness
from afbs.record.lines import step_line
from afbs.types import Decided, Order, Step, Update


def update(number: int) -> Update:
    return Update(Order(number, 0, 0, number, 0.0), 0, 1, number)


FIRST, SECOND, THIRD = map(update, range(3))
WEIGHED = Step((FIRST, SECOND), weights=(0.5, 0.5), why=("best of its cluster", "fresh enough"))
REASONED = WEIGHED._replace(dropped=(THIRD,), why=(*WEIGHED.why, "stale and small"))


def recorded(taken: Step, missing: list[Update]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(json.dumps(step_line(Decided(1.0, 1, taken), missing=missing)))
    return line


@pytest.mark.parametrize(
    ("planned", "taken", "missing"),
    [
        (WEIGHED, WEIGHED, []),
        (WEIGHED, Step((SECOND,), weights=(1.0,), why=("fresh enough",)), [FIRST]),
        (WEIGHED, Step(()), [FIRST, SECOND]),
        (REASONED, Step((), (THIRD,), why=("stale and small",)), [SECOND, FIRST]),
    ],
)
def test_a_step_is_as_decided_whatever_vectors_of_it_were_lost(
    planned: Step, taken: Step, missing: list[Update]
) -> None:
    witness = Witness([recorded(taken, missing)])
    witness.see(Decided(1.0, 1, planned))
    assert witness.done


@pytest.mark.parametrize(
    ("planned", "taken", "missing"),
    [
        (WEIGHED, Step(()), [FIRST]),
        (WEIGHED, Step(()), [FIRST, SECOND, THIRD]),
        (REASONED, Step(()), [FIRST, SECOND]),
        (REASONED, Step((), (THIRD,), why=("small",)), [FIRST, SECOND]),
    ],
)
def test_lost_vectors_excuse_no_other_difference(planned: Step, taken: Step, missing: list[Update]) -> None:
    with pytest.raises(DifferentlyDecidedError):
        Witness([recorded(taken, missing)]).see(Decided(1.0, 1, planned))
