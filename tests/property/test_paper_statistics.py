"""Numbers that the paper's setting must produce without any training: 600 clients, 120 under way, a buffer of 10,
latencies between 0 and 6000 s, 50,000 samples in log-normal volumes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.interfaces import Algorithm
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.partitions.clustered import Clustered
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import Arrived, ClientInfo, Decided, Event, Step
from federation import happens

DAY = 86_400.0


@cache
def clients(seed: int, clusters: int) -> list[ClientInfo]:
    labels = np.repeat(np.arange(10), 5_000)
    split = Clustered(clients=600, clusters=clusters).split(labels, None, Key.root(seed, "partition"))
    assert split.clusters is not None
    sizes = [len(samples) for samples in split.indices]
    return [ClientInfo(i, size, split.clusters[i]) for i, size in enumerate(sizes)]


def events(algorithm: Algorithm[Any], seed: int, days: float, clusters: int = 1) -> Iterator[Event]:
    known = clients(seed, clusters)
    connection = VirtualTime(known, Uniform(), Always(), seed)
    return happens(algorithm, known, connection, in_flight=120, horizon=days * DAY, seed=seed)


class Tally(NamedTuple):
    steps: list[Step]
    staleness: list[int]


def tally(*run: Any, **settings: Any) -> Tally:
    found = list(events(*run, **settings))
    steps = [event.step for event in found if isinstance(event, Decided)]
    return Tally(steps, [event.update.staleness for event in found if isinstance(event, Arrived)])


@pytest.mark.parametrize(("algorithm", "buffer"), [(FedBuff(), 10), (FedBuff(buffer_size=25), 25), (FedAsync(), 1)])
def test_the_mean_staleness_is_those_under_way_but_one_over_the_buffer(algorithm: Algorithm[Any], buffer: int) -> None:
    """While a job is under way, each of the 119 others arrives once on average, and C arrivals make a version."""
    later = tally(algorithm, 1, 4).staleness[3_000:]
    assert np.mean(later) == pytest.approx(119 / buffer, rel=0.02)


def share_dropped(clusters: int, survival: Any) -> float:
    """The mean over six draws of volumes, latencies and samplings; one draw alone is off by a point or so."""
    shares = []
    for seed in range(6):
        steps = tally(AFBS(survival=survival), seed, 2, clusters).steps[50:]
        dropped = sum(len(step.dropped) for step in steps)
        shares.append(dropped / (dropped + sum(len(step.used) for step in steps)))
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("clusters", "survival", "share"),
    [(1, "buffer", 0.52), (1, "none", 0.54), (3, "buffer", 0.376), (5, "buffer", 0.269)],
)
def test_afbs_drops_as_large_a_share_as_the_papers_setting_implies(clusters: int, survival: Any, share: float) -> None:
    assert share_dropped(clusters, survival) == pytest.approx(share, abs=0.02)


def test_afbss_step_is_about_two_thirds_of_the_mean_update() -> None:
    """λ = 1/√(1 + τ_min) averages 0.685."""
    weights = [sum(step.weights) for seed in range(4) for step in tally(AFBS(), seed, 2).steps[50:]]
    assert np.mean(weights) == pytest.approx(0.685, abs=0.035)


def test_a_synchronous_round_takes_as_long_as_the_slowest_of_its_cohort() -> None:
    """The largest of 120 latencies out of 0…6000 s is 6000 · 120/121 on average: 14.5 rounds a day."""
    rounds = [len(tally(FedAvg(), seed, 4).steps) for seed in range(4)]
    assert np.mean(rounds) == pytest.approx(4 * DAY / (6000 * 120 / 121), rel=0.02)


def test_buffered_updates_come_as_often_as_the_idle_are_asked() -> None:
    """7,200 to 7,470 steps in 20 days: one in about 235 s."""
    steps = [len(tally(FedBuff(), seed, 2).steps) for seed in range(6)]
    assert np.mean(steps) / 2 * 20 == pytest.approx(7_350, rel=0.03)
