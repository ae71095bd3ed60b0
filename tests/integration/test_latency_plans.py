"""Whole plans under every kind of heterogeneity."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from afbs.algorithms.fedbuff import FedBuff
from afbs.interfaces import Availability, Latency
from afbs.latency.always import Always
from afbs.latency.departures import Departures
from afbs.latency.dropouts import Dropouts
from afbs.latency.lognormal import LogNormal
from afbs.latency.long_tailed import LongTailed
from afbs.latency.proportional import Proportional
from afbs.latency.trace import Trace, TraceAvailability
from afbs.latency.uniform import Uniform
from afbs.latency.windows import Windows
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import Arrived, ClientInfo, Decided, Dispatched, Event, Lost, Stopped
from federation import happens

CLIENTS = [ClientInfo(i, 10 + 7 * i) for i in range(60)]
DAY = 86_400.0


def events(
    latency: Latency, availability: Availability, days: float = 2.0, seed: int = 1, in_flight: int = 20
) -> list[Event]:
    connection = VirtualTime(CLIENTS, latency, availability, seed)
    horizon = days * DAY
    return list(happens(FedBuff(buffer_size=5), CLIENTS, connection, in_flight=in_flight, horizon=horizon, seed=seed))


def traces(folder: Path) -> tuple[str, str]:
    rng = np.random.default_rng(0)
    rows = [f"{i},{start},{rng.integers(100, 4000)}" for i in range(60) for start in range(0, 80_000, 20_000)]
    (folder / "durations.csv").write_text("client,start,duration\n" + "\n".join(rows) + "\n")
    rows = [f"{i},{1000 * i % 70_000},{1000 * i % 70_000 + 15_000}" for i in range(60)]
    (folder / "presences.csv").write_text("client,start,end\n" + "\n".join(rows) + "\n")
    return str(folder / "durations.csv"), str(folder / "presences.csv")


@pytest.mark.parametrize("per", ["client", "job"])
@pytest.mark.parametrize("latency", [Uniform, LogNormal, LongTailed, Proportional])
def test_durations_are_drawn_once_a_client_or_once_a_job(latency: type, per: str) -> None:
    began: dict[int, float] = {}
    durations: dict[int, set[float]] = {}
    for event in events(latency(per=per), Always()):
        if isinstance(event, Dispatched):
            began[event.order.sequence] = event.time
        elif isinstance(event, Arrived):
            order = event.update.order
            durations.setdefault(order.client, set()).add(round(event.time - began[order.sequence], 3))
    often = max(len(found) for found in durations.values())
    assert often == 1 if per == "client" else often > 3


@pytest.mark.parametrize("kind", ["windows", "dropouts", "departures", "trace"])
def test_a_plan_is_the_same_every_time_and_loses_some_jobs(kind: str, tmp_path: Path) -> None:
    durations, presences = traces(tmp_path)
    latency, availability = {
        "windows": (Uniform(), Windows()),
        "dropouts": (LogNormal(per="job"), Dropouts()),
        "departures": (Proportional(), Departures(share=0.5, leave=DAY / 2, back_at=DAY)),
        "trace": (Trace(durations, period=DAY), TraceAvailability(presences, period=DAY)),
    }[kind]
    first = events(latency, availability)
    assert [repr(event) for event in first] == [repr(event) for event in events(latency, availability)]
    number = Counter(type(event) for event in first)
    assert number[Lost] > 3
    assert number[Decided] > 5
    assert number[Dispatched] - number[Arrived] - number[Lost] <= 20


def test_only_clients_in_their_window_are_asked_and_arrive() -> None:
    windows = Windows(period=DAY, share=0.3)
    key = Key.root(1, "availability")

    def there(client: int, time: float) -> bool:
        return windows.back(CLIENTS[client], time, key.child(client)) <= time

    found = events(Uniform(), windows)
    asked = [event for event in found if isinstance(event, Dispatched)]
    assert len(asked) > 100
    assert all(there(event.order.client, event.time) for event in asked)
    arrived = [event for event in found if isinstance(event, Arrived)]
    assert all(there(event.update.client, event.time - 1e-3) for event in arrived)


def test_who_left_is_not_asked_until_it_is_back() -> None:
    found = events(Uniform(), Departures(share=0.5, leave=DAY / 2, back_at=DAY))
    asked = [(event.time, event.order.client) for event in found if isinstance(event, Dispatched)]
    between = {client for time, client in asked if DAY / 2 <= time < DAY}
    after = {client for time, client in asked if time >= DAY}
    assert 15 < len(between) < 45
    assert len(after) > 55


def test_a_lost_client_is_left_alone_while_it_is_away() -> None:
    found = events(Uniform(high=600), Dropouts(probability=0.3, away=5000.0))
    lost: dict[int, float] = {}
    gaps = []
    for event in found:
        if isinstance(event, Lost):
            lost[event.order.client] = event.time
        elif isinstance(event, Dispatched) and event.order.client in lost:
            gaps.append(event.time - lost.pop(event.order.client))
    assert len(gaps) > 200
    assert np.mean(gaps) > 4500


def test_when_everybody_has_left_for_good_the_run_ends() -> None:
    stopped = events(Uniform(), Departures(share=1.0, leave=DAY / 4))[-1]
    assert isinstance(stopped, Stopped)
    assert stopped.reason == "stalled"
    assert stopped.time <= DAY / 4 + 1


def test_large_clients_are_slow_where_time_is_proportional_to_data() -> None:
    counts = Counter(
        event.update.client
        for event in events(Proportional(speed_sigma=0, network_sigma=0), Always(), in_flight=60)
        if isinstance(event, Arrived)
    )
    assert sum(counts[i] for i in range(20)) > 2 * sum(counts[i] for i in range(40, 60))
