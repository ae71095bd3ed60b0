"""A fleet as it was seen: losses without absence, absences, late comers, and those who never came."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from afbs.interfaces import Latency
from afbs.latency.observed import Observed
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Instant, Order, UserError

KEY = Key.root(0, "test")
STEADY, LATE, NEVER, AWAY = (ClientInfo(number, 10) for number in range(4))


class TenSeconds(Latency):
    per = "job"

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        return 10.0


@pytest.fixture
def seen(tmp_path: Path) -> Observed:
    """Client 0 lost a job at 5 and stayed, and was away from 20 to 30; client 1 came at 7; client 3 was away at 0."""
    rows = ["0,0,5", "0,5,20", "0,30,1e15", "1,7,1e15", "3,-1,0", "3,4,1e15"]
    path = tmp_path / "presence.csv"
    path.write_text("\n".join(["client,start,end", *rows]))
    return Observed(str(path))


def test_a_job_is_lost_at_the_end_of_a_presence_though_the_next_begins_at_once(seen: Observed) -> None:
    assert seen.vanishes(STEADY, 0.0, 10.0, KEY) == 5.0
    assert seen.back(STEADY, 5.0, KEY) == 5.0
    assert seen.vanishes(STEADY, 5.0, 15.0, KEY) is None
    assert seen.vanishes(STEADY, 12.0, 22.0, KEY) == 20.0
    assert seen.back(STEADY, 20.0, KEY) == 30.0


def test_who_came_late_joins_and_who_was_never_seen_does_not(seen: Observed) -> None:
    assert [seen.joins(client) for client in (STEADY, LATE, NEVER, AWAY)] == [0.0, 7.0, inf, 0.0]
    assert seen.back(AWAY, 0.0, KEY) == 4.0
    with pytest.raises(UserError, match="no presence of client 2"):
        seen.back(NEVER, 0.0, KEY)


def test_the_simulation_tells_of_late_comers_in_their_time(seen: Observed) -> None:
    simulated = VirtualTime([STEADY, LATE, NEVER, AWAY], TenSeconds(), seen, seed=0)
    first, again = Order(0, 0, 0, 0, 0.0), Order(0, 0, 1, 1, 5.0)
    simulated.send(first)
    assert simulated.receive(inf) == Instant(5.0, [], [first], [], [])
    assert simulated.reachable(0)
    simulated.send(again)
    assert simulated.receive(inf) == Instant(7.0, [], [], [], [LATE])
    assert simulated.receive(inf) == Instant(15.0, (again,))
    assert simulated.receive(inf) is None


@pytest.mark.parametrize(("time", "told"), [(6.0, 7.0), (8.0, 15.0)])
def test_whoever_takes_over_tells_only_of_those_who_have_not_come(seen: Observed, time: float, told: float) -> None:
    simulated: Any = VirtualTime([STEADY, LATE], TenSeconds(), seen, seed=0)
    simulated.take_over(time, [Order(0, 0, 1, 1, 5.0)], [])
    assert simulated.receive(inf).time == told
