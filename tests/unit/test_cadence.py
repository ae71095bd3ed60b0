"""When checkpoints are due, on a clock that is played."""

from __future__ import annotations

import pytest

from afbs.engine import cadence
from afbs.engine.cadence import Cadence

MEGABYTE = 1 << 20


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("size", "most", "wait"),
    [
        (40_000, 60.0, 1.0),  # an MLP: every second
        (6 * MEGABYTE, 60.0, 6.0),  # LeNet-5 and the versions that jobs under way started from
        (150 * MEGABYTE, 60.0, 60.0),  # with a memory of 600 clients: as seldom as is allowed
        (40_000, 0.2, 0.2),
        (6 * MEGABYTE, 0.0, 0.0),
    ],
)
def test_small_checkpoints_come_sooner_and_none_later_than_is_asked_for(
    size: int, most: float, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(cadence, "perf_counter", clock)
    due = Cadence(most, size)
    for _ in range(2):
        began = clock.now
        assert not due.due()
        clock.now = began + wait - 1e-6
        assert not due.due()
        clock.now = began + wait + 1e-6
        assert due.due()
        due.saved(size)


def test_the_size_of_the_last_one_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(cadence, "perf_counter", clock)
    due = Cadence(60.0, 1000)
    clock.now += 2.0
    assert due.due()
    due.saved(10 * MEGABYTE)
    clock.now += 2.0
    assert not due.due()
    clock.now += 9.0
    assert due.due()
