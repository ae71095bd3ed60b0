"""How long jobs take, and when clients can be reached."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

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
from afbs.types import ClientInfo, Instant, Order, UserError

ROOT = Key.root(0, "test")
CLIENT = ClientInfo(3, 50)


def durations(latency: Latency, number: int = 20_000) -> np.ndarray:
    return np.array([latency.duration(CLIENT, 0.0, ROOT.child(i)) for i in range(number)])


def test_the_papers_latency_is_uniform_in_whole_seconds() -> None:
    drawn = durations(Uniform())
    assert drawn.min() >= 1
    assert drawn.max() <= 6000
    assert (drawn == np.round(drawn)).all()
    assert drawn.mean() == pytest.approx(3000, abs=50)


def test_log_normal_durations_have_their_median_and_spread() -> None:
    logs = np.log(durations(LogNormal(median=500, sigma=0.7)))
    assert np.median(logs) == pytest.approx(math.log(500), abs=0.03)
    assert logs.std() == pytest.approx(0.7, abs=0.02)
    assert durations(LogNormal(median=500, sigma=0.0), 3).tolist() == [500.0] * 3


def test_the_long_tail_is_paretos() -> None:
    drawn = durations(LongTailed(shortest=100, tail=2.0, longest=1e9))
    assert drawn.min() >= 100
    # P(X > 100 z) = z^-2
    assert (drawn > 200).mean() == pytest.approx(0.25, abs=0.01)
    assert (drawn > 1000).mean() == pytest.approx(0.01, abs=0.003)


def test_the_long_tail_ends_at_the_longest() -> None:
    drawn = durations(LongTailed(shortest=100, tail=0.001, longest=400), 200)
    assert drawn.max() == 400
    with pytest.raises(UserError, match=r"`latency\.shortest` must not be above `latency\.longest`, got 9 and 3"):
        LongTailed(shortest=9, longest=3)


def test_computing_takes_as_long_as_there_are_samples() -> None:
    latency = Proportional(seconds_per_example=2, speed_sigma=0, network=30, network_sigma=0)
    assert latency.duration(ClientInfo(0, 10), 0.0, ROOT) == 50
    assert latency.duration(ClientInfo(0, 100), 0.0, ROOT) == 230


def test_speed_and_network_spread_independently() -> None:
    compute = durations(Proportional(seconds_per_example=1, speed_sigma=0.5, network=0))
    network = durations(Proportional(seconds_per_example=1e-12, network=10, network_sigma=0.5))
    assert np.log(compute / 50).std() == pytest.approx(0.5, abs=0.02)
    assert abs(np.corrcoef(np.log(compute), np.log(network))[0, 1]) < 0.03


def test_normal_draws_agree_with_the_standard_library() -> None:
    latency = LogNormal(median=1.0, sigma=1.0)
    expected = math.exp(NormalDist().inv_cdf(ROOT.child(5).uniform()))
    assert latency.duration(CLIENT, 0.0, ROOT.child(5)) == expected


def trace(folder: Path, text: str) -> str:
    (folder / "trace.csv").write_text(text)
    return str(folder / "trace.csv")


def test_a_trace_is_replayed_by_the_last_row_that_has_started(tmp_path: Path) -> None:
    latency = Trace(trace(tmp_path, "client,start,duration\n3,100,7\n3,0,5\n0,0,9\n3,200,11\n"))
    found = [latency.duration(CLIENT, time, ROOT) for time in (0, 99.9, 100, 150, 200, 1e9)]
    assert found == [5, 5, 7, 7, 11, 11]


def test_a_changed_trace_is_read_again_by_a_new_run(tmp_path: Path) -> None:
    for duration in (5, 6):
        path = trace(tmp_path, f"client,start,duration\n3,0,{duration}\n")
        assert Trace(path).duration(CLIENT, 0.0, ROOT) == duration


def test_a_repeated_trace_goes_round(tmp_path: Path) -> None:
    latency = Trace(trace(tmp_path, "client,start,duration\n3,10,5\n3,50,7\n"), period=100)
    assert [latency.duration(CLIENT, time, ROOT) for time in (5, 10, 60, 105, 110, 160)] == [7, 5, 7, 7, 5, 7]


def test_a_trace_begins_with_its_first_row(tmp_path: Path) -> None:
    assert Trace(trace(tmp_path, "client,start,duration\n3,10,5\n3,50,7\n")).duration(CLIENT, 0.0, ROOT) == 5


def test_a_client_the_trace_does_not_know_may_share(tmp_path: Path) -> None:
    path = trace(tmp_path, "client,start,duration\n10,0,5\n20,0,7\n")
    with pytest.raises(UserError, match=r"no row for client 3, only for 2 others.*`latency\.share` = true"):
        Trace(path).duration(CLIENT, 0.0, ROOT)
    assert Trace(path, share=True).duration(CLIENT, 0.0, ROOT) == 7  # 3 is odd


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("client,start,duration\n0,-5,3\n", "line 2: client and start must be 0 or above, got 0 and -5"),
        (
            "client,start,duration\n0,5,3\n0,6,-3\n",
            "line 3: the duration must be between 1e-06 and 1e[+]09 seconds, got -3",
        ),
        ("client,start,duration\n0,5,0\n", "line 2: the duration must be between 1e-06 and 1e[+]09 seconds, got 0"),
        ("client,start,duration\n0,nan,1\n", "line 2: client and start must be 0 or above"),
        ("client,start,duration\n0,5\n", "line 2: '0,5' is not a client's number, a start and its duration"),
        ("client,start,duration\n0,5,1,1\n", "line 2: '0,5,1,1' is not"),
        ("client,start,duration\nann,5,1\n", "line 2: 'ann,5,1' is not"),
        ("0,5,1\n", "line 1: the columns are 0, 5, 1; expected client, start, duration"),
        ("client,start,duration\n", "has no rows"),
        ("", "has no rows"),
    ],
)
def test_a_bad_trace_is_named_by_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Trace(trace(tmp_path, text)).duration(CLIENT, 0.0, ROOT)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trace .*nowhere\.csv cannot be read"):
        Trace(str(tmp_path / "nowhere.csv")).duration(CLIENT, 0.0, ROOT)


def test_presences_are_replayed(tmp_path: Path) -> None:
    there = TraceAvailability(trace(tmp_path, "client,start,end\n3,10,20\n3,50,60\n"))
    assert [there.back(CLIENT, time, ROOT) for time in (0, 10, 15, 20, 55)] == [10, 10, 15, 50, 55]
    assert there.back(CLIENT, 60, ROOT) == math.inf
    assert there.vanishes(CLIENT, 12, 20, ROOT) is None
    assert there.vanishes(CLIENT, 12, 21, ROOT) == 20


def test_repeated_presences_go_round(tmp_path: Path) -> None:
    there = TraceAvailability(trace(tmp_path, "client,start,end\n3,10,20\n"), period=100)
    assert [there.back(CLIENT, time, ROOT) for time in (25, 110, 119, 120, 999)] == [110, 110, 119, 210, 1010]
    assert there.vanishes(CLIENT, 112, 125, ROOT) == 120


def test_a_presence_that_ends_before_it_starts_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 2: the end must be after the start \(20\), got 10"):
        TraceAvailability(trace(tmp_path, "client,start,end\n3,20,10\n")).back(CLIENT, 0, ROOT)


def test_windows_are_open_for_their_share() -> None:
    windows = Windows(period=100, share=0.3)
    times = np.arange(0, 1000, 0.5)
    open_ = np.array([windows.back(CLIENT, time, ROOT.child(3)) == time for time in times])
    assert open_.mean() == pytest.approx(0.3, abs=0.01)


def test_clients_have_their_own_hours() -> None:
    windows = Windows(period=100, share=0.5)
    now = [windows.back(ClientInfo(i, 1), 0.0, ROOT.child(i)) == 0 for i in range(1000)]
    assert np.mean(now) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("period", [86_400.0, 100.0, 7.3, 0.1])
def test_a_client_that_is_back_can_work_until_its_window_closes(period: float) -> None:
    windows = Windows(period=period, share=0.25)
    for i in range(300):
        client, key = ClientInfo(i, 1), ROOT.child(i)
        asked = i * period * 1.37
        back = windows.back(client, asked, key)
        assert windows.back(client, back, key) == back
        job = key.child(0)
        if back > asked:  # the window has just opened
            assert windows.vanishes(client, back, back + 0.24 * period, job) is None
        lost = windows.vanishes(client, back, back + period, job)
        assert lost is not None
        assert back < lost <= back + 0.25 * period * (1 + 1e-5)
        assert windows.back(client, lost, key) >= lost


def test_a_client_may_finish_its_job_after_hours() -> None:
    assert Windows(period=100, share=0.3, finishes=True).vanishes(CLIENT, 0, 1e6, ROOT) is None
    assert Windows(period=100, share=1.0).vanishes(CLIENT, 0, 1e6, ROOT) is None


def test_jobs_are_lost_with_the_given_probability_at_any_moment() -> None:
    dropouts = Dropouts(probability=0.2)
    lost = [dropouts.vanishes(CLIENT, 100, 200, ROOT.child(3, job)) for job in range(20_000)]
    moments = np.array([moment for moment in lost if moment is not None])
    assert len(moments) / len(lost) == pytest.approx(0.2, abs=0.01)
    assert moments.min() >= 100
    assert moments.max() < 200
    assert moments.mean() == pytest.approx(150, abs=2)


def test_a_client_that_vanished_is_away_for_a_time() -> None:
    away = [Dropouts(away=60).absence(CLIENT, ROOT.child(3, job)) for job in range(20_000)]
    assert np.mean(away) == pytest.approx(60, rel=0.03)
    assert Dropouts(away=math.inf).absence(CLIENT, ROOT) == math.inf
    assert Dropouts(away=0).absence(CLIENT, ROOT) == 0


def test_a_part_of_the_clients_leaves_and_comes_back() -> None:
    departures = Departures(share=0.4, leave=100, back_at=500)
    crowd = [ClientInfo(i, 1) for i in range(2000)]
    gone = [client for client in crowd if departures.back(client, 100, ROOT.child(client.id)) == 500]
    assert len(gone) / len(crowd) == pytest.approx(0.4, abs=0.04)
    for client in gone[:50]:
        key = ROOT.child(client.id, 7)
        assert departures.back(client, 99, ROOT.child(client.id)) == 99
        assert departures.back(client, 500, ROOT.child(client.id)) == 500
        assert departures.vanishes(client, 50, 150, key) == 100
        assert departures.vanishes(client, 50, 100, key) is None
        assert departures.vanishes(client, 600, 700, key) is None
    stays = next(client for client in crowd if client not in gone)
    assert departures.vanishes(stays, 50, 150, ROOT.child(stays.id, 7)) is None


def test_without_a_return_a_departure_is_for_good() -> None:
    assert Departures(share=1.0, leave=100).back(CLIENT, 150, ROOT) == math.inf
    with pytest.raises(UserError, match=r"`availability\.back_at` must be after `availability\.leave` \(9\), got 3"):
        Departures(leave=9, back_at=3)


class OneHour(Latency):
    per = "job"

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        return 3600.0


def connection(availability: Availability) -> VirtualTime:
    return VirtualTime([CLIENT], OneHour(), availability, seed=0)


def test_the_transport_brings_a_vanished_client_back_when_it_has_been_away() -> None:
    simulated = connection(Dropouts(probability=1.0, away=600.0))
    simulated.send(Order(3, 0, 0, 0, 0.0))
    lost = simulated.receive(math.inf)
    assert lost is not None
    assert [order.client for order in lost.failed] == [3]
    assert not simulated.reachable(3)
    simulated.watch(3)
    back = simulated.receive(math.inf)
    assert back is not None
    assert list(back.returned) == [3]
    assert back.time > lost.time
    assert simulated.reachable(3)


def test_whom_nobody_watches_comes_back_unannounced() -> None:
    simulated = connection(Dropouts(probability=1.0, away=600.0))
    simulated.send(Order(3, 0, 0, 0, 0.0))
    lost = simulated.receive(math.inf)
    assert lost is not None
    assert not simulated.reachable(3)
    assert simulated.receive(math.inf) is None


def test_nothing_later_than_asked_for_is_told() -> None:
    simulated = connection(Dropouts(probability=0.0))
    simulated.send(Order(3, 0, 0, 0, 0.0))
    assert simulated.receive(3599.0) == Instant(3599.0)
    arrived = simulated.receive(3600.0)
    assert arrived is not None
    assert (arrived.time, [order.client for order in arrived.delivered]) == (3600.0, [3])


def test_the_transport_does_not_wait_for_a_client_that_is_gone_for_good() -> None:
    simulated = connection(Dropouts(probability=1.0, away=math.inf))
    simulated.send(Order(3, 0, 0, 0, 0.0))
    assert simulated.receive(math.inf) is not None
    assert not simulated.reachable(3)
    simulated.watch(3)
    assert simulated.receive(math.inf) is None


def test_a_connection_that_takes_over_goes_on_as_the_one_before_would_have() -> None:
    first, second = (connection(Dropouts(probability=1.0, away=600.0)) for _ in range(2))
    order = Order(3, 0, 0, 0, 0.0)
    first.send(order)
    second.take_over(10.0, [order], [])
    lost = first.receive(math.inf)
    assert second.receive(math.inf) == lost


@pytest.mark.parametrize(
    "part",
    [Uniform(), LogNormal(), LongTailed(), Proportional(), Dropouts(), Windows(), Departures(share=0.5, leave=5)],
    ids=repr,
)
def test_the_same_key_gives_the_same_number(part: Latency | Availability) -> None:
    def ask() -> float | None:
        key = ROOT.child(3, 1)
        return part.duration(CLIENT, 1.0, key) if isinstance(part, Latency) else part.vanishes(CLIENT, 1.0, 9.0, key)

    assert ask() == ask()


@pytest.mark.parametrize("latency", [Uniform(10, 50), LogNormal(), LongTailed(), Proportional(network=0.0)])
def test_a_job_takes_in_proportion_to_its_work(latency: Latency) -> None:
    usual, half, double = (latency.duration(CLIENT, 0.0, ROOT, work) for work in (1.0, 0.5, 2.0))
    assert usual == latency.duration(CLIENT, 0.0, ROOT)
    assert [half, double] == pytest.approx([usual / 2, usual * 2])


def test_only_computing_takes_in_proportion_to_the_work() -> None:
    latency = Proportional(seconds_per_example=10.0, speed_sigma=0.0, network=60.0, network_sigma=0.0)
    found = [latency.duration(ClientInfo(0, 6), 0.0, ROOT, work) for work in (1.0, 3.0)]
    assert found == [120.0, 240.0]


def test_an_order_of_another_amount_of_work_takes_another_time_and_the_usual_one_does_not() -> None:
    """The usual job has ten steps and takes as long as `Uniform` draws for the client, once and for all."""
    connection = VirtualTime([CLIENT], Uniform(100, 100), Always(), seed=0, work=lambda order: order.steps / 10)
    for number, steps in enumerate((0, 5, 0, 20)):
        connection.send(Order(CLIENT.id, 0, number, number, 1000.0 * number, steps=steps))
    found = [connection.receive(1e9) for _ in range(4)]
    assert [instant.time - 1000.0 * i for i, instant in enumerate(found) if instant] == [100.0, 50.0, 100.0, 200.0]
