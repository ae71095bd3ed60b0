"""Time as algorithms know it: quorums, deadlines, over-selection, what is too stale, and how much work an order is.

Every expected value is worked by hand from who takes how long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import afbs
from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.engine.plan import follow, plan
from afbs.interfaces import Algorithm, Latency
from afbs.latency.always import Always
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import Ask, ClientId, ClientInfo, Decided, Dispatched, Event, Step, Stopped, Update, UserError, Woken


@dataclass(frozen=True)
class Table(Latency):
    """Client i always takes `seconds[i]`."""

    seconds: tuple[float, ...]
    per = "client"

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        return self.seconds[client.id]


def happens(
    algorithm: Algorithm[Any], seconds: Sequence[float], horizon: float, sizes: Sequence[int] = (), **settings: Any
) -> list[Event]:
    """Everybody is in flight at once, unless `in_flight` says otherwise."""
    examples = sizes or [10] * len(seconds)
    clients = [ClientInfo(number, size) for number, size in enumerate(examples)]
    connection = VirtualTime(clients, Table(tuple(seconds)), Always(), 0)
    chosen = {"in_flight": len(clients), "rate": lambda version, time: 0.1, **settings}
    reading = plan(algorithm, clients, connection.reachable, horizon=horizon, seed=0, **chosen)
    return list(follow(reading, connection))  # type: ignore[arg-type]


def steps(events: Sequence[Event]) -> list[tuple[float, list[ClientId], list[ClientId]]]:
    return [
        (event.time, sorted(u.client for u in event.step.used), sorted(u.client for u in event.step.dropped))
        for event in events
        if isinstance(event, Decided)
    ]


@pytest.mark.parametrize("kind", [FedAvg, FedDyn])
def test_a_round_closes_when_a_quorum_has_answered_and_the_late_are_dropped_with_the_next(kind: Any) -> None:
    """Clients take 10, 20, 30 and 100 s. Three of four close the first round at 30; then 0, 1 and 2 are asked again and
    answer by 60; client 3's answer of 100 s comes in the middle of the fourth round, 90 to 120, and is dropped."""
    found = steps(happens(kind(quorum=3), [10, 20, 30, 100], 125))
    assert found == [(30, [0, 1, 2], []), (60, [0, 1, 2], []), (90, [0, 1, 2], []), (120, [0, 1, 2], [3])]


@pytest.mark.parametrize("kind", [FedAvg, FedDyn])
def test_a_round_closes_at_its_deadline_with_whoever_has_answered(kind: Any) -> None:
    """Asked at 0, clients answer at 10, 20 and 70: the deadline of 50 closes with two. They are asked again and answer
    at 60 and 70, which completes the second round; the answer of client 2 was late for the first."""
    events = happens(kind(deadline=50), [10, 20, 70], 71)
    assert steps(events) == [(50, [0, 1], []), (70, [0, 1], [2])]
    assert [event.time for event in events if isinstance(event, Woken)] == [50]
    assert [event.step.why for event in events if isinstance(event, Decided)] == [(), ("in time", "in time", "late")]


def test_a_round_that_is_complete_does_not_wait_for_its_deadline() -> None:
    events = happens(FedAvg(deadline=50), [10, 20, 30], 65)
    assert steps(events) == [(30, [0, 1, 2], []), (60, [0, 1, 2], [])]
    assert not [event for event in events if isinstance(event, Woken)]


def test_an_answer_at_the_deadline_is_in_time() -> None:
    assert steps(happens(FedAvg(deadline=50), [10, 50], 50)) == [(50, [0, 1], [])]


def test_when_nobody_has_answered_by_the_deadline_more_are_asked_and_all_are_awaited() -> None:
    """Two of four are asked at 0 and take 80 s. At 50 nobody has answered and there is no room to ask more; at 80 both
    answer and the round is over."""
    events = happens(FedAvg(deadline=50), [80, 80, 80, 80], 85, in_flight=2)
    assert [time for time, *_ in steps(events)] == [80]
    assert [event.time for event in events if isinstance(event, Woken)] == [50]
    roomy = happens(FedAvg(quorum=1, over_selection=1.0, deadline=50), [80, 80, 80, 80], 85, in_flight=4)
    asked = [event.time for event in roomy if isinstance(event, Dispatched) and event.time < 80]
    assert asked == [0, 0, 50, 50]


def test_over_selection_asks_more_than_the_quorum_and_no_more_than_may_be_under_way() -> None:
    def first_round(**settings: Any) -> int:
        events = happens(FedAvg(quorum=4, **settings), [10] * 10, 5)
        return sum(isinstance(event, Dispatched) for event in events)

    assert first_round() == 10
    assert first_round(over_selection=0.3) == 6  # ceil(4 · 1.3)
    assert first_round(over_selection=9.0) == 10


@pytest.mark.parametrize("algorithm", [FedBuff(buffer_size=3, deadline=25), AFBS(buffer_size=3, deadline=25)])
def test_a_buffer_is_emptied_so_long_after_its_first_update_came(algorithm: Algorithm[Any]) -> None:
    """Updates come at 10 and 20; the third would come at 90. At 10 + 25 the two are taken, and everybody idle is asked
    again; they come at 45 and 55, and the buffer that began at 45 is emptied at 70."""
    assert steps(happens(algorithm, [10, 20, 90], 80)) == [(35, [0, 1], []), (70, [0, 1], [])]


def test_a_full_buffer_does_not_wait_and_its_deadline_is_forgotten() -> None:
    events = happens(FedBuff(buffer_size=2, deadline=25), [10, 20], 41)
    assert steps(events) == [(20, [0, 1], []), (40, [0, 1], [])]
    assert not [event for event in events if isinstance(event, Woken)]


def test_afbs_selects_at_a_deadline_as_it_does_when_the_buffer_is_full() -> None:
    """Of three that fill a buffer, 2 comes at 10 and 1 at 38: at 10 + 30 both are taken. Client 0, asked at 0 and stale
    by one, comes at 45, client 2 at 50; at 45 + 30 the older and smaller of the two is dropped."""
    found = happens(AFBS(buffer_size=3, deadline=30, survival="none"), [45, 38, 10], 76, sizes=[10, 50, 100])
    assert steps(found) == [(40, [1, 2], []), (75, [2], [0])]
    last = [event for event in found if isinstance(event, Decided)][-1]
    assert last.step.why == ("best of its cluster", "staler and smaller than the best")


@pytest.mark.parametrize("kind", [FedBuff, AFBS])
def test_an_update_that_is_too_stale_never_counts_and_never_fills_the_buffer(kind: Any) -> None:
    """Client 0 takes 10 s, client 1 takes 35: when it answers three versions have been made since it was asked."""
    found = happens(kind(buffer_size=1, max_staleness=2), [10, 35], 45)
    assert steps(found) == [(10, [0], []), (20, [0], []), (30, [0], []), (40, [0], [1])]
    last = [event for event in found if isinstance(event, Decided)][-1]
    assert last.step.why[-1] == "too stale"
    assert steps(happens(kind(buffer_size=1, max_staleness=3), [10, 35], 36))[-1] == (35, [1], [])


@dataclass(frozen=True)
class Gentle(afbs.Algorithm[None]):
    """The seven lines: whoever took long gets fewer epochs."""

    def init(self, clients: Sequence[ClientInfo]) -> None: ...

    def dispatch(self, state: None, pool: afbs.Pool, key: Key) -> tuple[None, list[Ask]]:
        return None, [Ask(client, epochs=1 if client >= 2 else 5) for client in pool.sample(pool.room, key)]

    def receive(self, state: None, update: Update, key: Key) -> tuple[None, Step]:
        return None, Step((update,))

    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return memory, params - vectors[0]


def test_an_algorithm_gives_slow_clients_fewer_epochs() -> None:
    orders = [event.order for event in happens(Gentle(), [10, 10, 90, 90], 100) if isinstance(event, Dispatched)]
    assert {(order.client, order.epochs) for order in orders} == {(0, 5), (1, 5), (2, 1), (3, 1)}


def test_the_amount_of_work_reaches_the_client(tmp_path: Any) -> None:
    import json

    import tiny

    result = tiny.run(tmp_path, algorithm=Gentle(), **{"run.versions": 20})
    told = [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]
    trained = {line["client"]: line["epochs"] for line in told if line["event"] == "dispatch"}
    assert set(trained.values()) == {1, 5}
    used = [line["used"]["order"][0] for line in told if line["event"] == "step"]
    work = {line["sequence"]: line["epochs"] for line in told if line["event"] == "dispatch"}
    samples = {line["order"]: line["examples"] for line in told if line["event"] == "arrival"}
    facts = json.loads((result.folder / "result.json").read_text())
    assert facts["jobs"]["samples"] == sum(samples[order] * work[order] for order in used)
    assert facts["versions"] == 20


def test_a_run_ends_after_so_many_versions() -> None:
    events = happens(FedBuff(buffer_size=2), [10, 10], 1000, versions=3)
    assert [time for time, *_ in steps(events)] == [10, 20, 30]
    assert events[-1] == Stopped(30, "versions")


@dataclass(frozen=True)
class Restless(Gentle):
    """Wants to be woken at a moment that has passed, for ever."""

    def wake(self, state: None) -> float:
        return 5.0


def test_an_algorithm_that_asks_for_the_same_moment_for_ever_is_told_so() -> None:
    with pytest.raises(UserError, match=r"`Restless.wake` .* asks for 5 s, though it was woken at 5 s"):
        happens(Restless(), [10], 100)


@dataclass(frozen=True)
class Ticking(Gentle):
    """Steps with what has arrived, every 25 s."""

    def init(self, clients: Sequence[ClientInfo]) -> Any:
        return 25.0, ()

    def dispatch(self, state: Any, pool: afbs.Pool, key: Key) -> Any:
        return state, pool.sample(pool.room, key)

    def receive(self, state: Any, update: Update, key: Key) -> Any:
        return (state[0], (*state[1], update)), None

    def wake(self, state: Any) -> float:
        return float(state[0])

    def woken(self, state: Any, time: float, key: Key) -> Any:
        return (time + 25.0, ()), Step(state[1]) if state[1] else None


def test_an_algorithm_can_step_by_the_clock() -> None:
    """Clients take 10 and 40 s and wait for the step: 0 is used at 25, 50 and 75, client 1 at 50 and at 100."""
    assert steps(happens(Ticking(), [10, 40], 100)) == [
        (25, [0], []),
        (50, [0, 1], []),
        (75, [0], []),
        (100, [0, 1], []),
    ]


def test_an_update_knows_when_it_arrived() -> None:
    found = happens(FedBuff(buffer_size=2), [10, 30], 30)
    assert [update.time for event in found if isinstance(event, Decided) for update in event.step.used] == [10, 30]
