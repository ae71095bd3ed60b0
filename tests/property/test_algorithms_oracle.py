"""Every algorithm against a slow, literal transcription of its paper: Python lists, no numpy, no look at our code.

An oracle is told what happens (a job begins, arrives, is lost) and decides by itself when the model changes. It keeps
its own model, version, client states and server memory; after every version both sides must agree.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afbs import registry
from afbs.algorithms.ace import ACE
from afbs.algorithms.afbs import AFBS
from afbs.algorithms.ca2fl import CA2FL
from afbs.algorithms.fadas import FADAS
from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.algorithms.fedfa import FedFa
from afbs.algorithms.fedstaleweight import FedStaleWeight
from afbs.interfaces import Algorithm
from afbs.latency.uniform import Uniform
from afbs.seeds import Key
from afbs.types import Arrived, Dispatched, Lost
from federation import Losses, World, drive, network, quadratic

Numbers = list[float]


def add(a: Numbers, b: Numbers) -> Numbers:
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Numbers, b: Numbers) -> Numbers:
    return [x - y for x, y in zip(a, b, strict=True)]


def times(c: float, a: Numbers) -> Numbers:
    return [c * x for x in a]


class Job(NamedTuple):
    client: int
    began: int
    w: Numbers
    end: Numbers

    @property
    def delta(self) -> Numbers:
        return minus(self.w, self.end)


class Oracle:
    """The model, its versions, and local SGD. A subclass is one paper."""

    def __init__(self, algorithm: Any, world: World, seed: int):
        self.settings = algorithm
        self.world = world
        self.seed = seed
        self.examples = {client.id: client.examples for client in world.clients}
        self.cluster = {client.id: client.cluster for client in world.clients}
        self.w = [float(x) for x in world.start]
        self.t = 0
        self.versions = [self.w]
        self.zero = [0.0] * len(self.w)
        self.moments: dict[int, tuple[float, float]] = {}

    def extra(self, client: int, theta: Numbers, w: Numbers) -> Numbers:
        return self.zero

    def begin(self, client: int) -> Job:
        theta = self.w
        for _ in range(self.world.steps):
            slope = [float(x) for x in self.world.gradient(client, np.array(theta))]
            theta = minus(theta, times(self.world.lr, add(slope, self.extra(client, theta, self.w))))
        return Job(client, self.t, self.w, theta)

    def arrived(self, job: Job) -> None:
        raise NotImplementedError

    def lost(self, job: Job) -> None:
        pass

    def descends(self, g: Numbers) -> Numbers:
        """The next model, if g is the gradient for the server's optimiser: Reddi et al., Algorithm 2, by coordinate."""
        rule, eta = self.settings.server, self.settings.server_lr
        if rule == "sgd":
            return minus(self.w, times(eta, g))
        beta1, beta2, tau = self.settings.server_momentum, self.settings.server_beta2, self.settings.server_epsilon
        new = []
        for j, (w_j, g_j) in enumerate(zip(self.w, g, strict=True)):
            m, v = self.moments.get(j, (0.0, tau**2))
            if rule == "momentum":
                m = beta1 * m + g_j
                new.append(w_j - eta * m)
            else:
                m = beta1 * m + (1 - beta1) * g_j
                grows = {"adam": g_j**2 - v, "yogi": g_j**2 * (1 if g_j**2 > v else -1)}[rule]
                v = v + (1 - beta2) * grows
                new.append(w_j - eta * m / (sqrt(v) + tau))
            self.moments[j] = (m, v)
        return new

    def becomes(self, w: Numbers) -> None:
        self.w = w
        self.t += 1
        self.versions.append(w)


class Rounds(Oracle):
    """Synchronous: a cohort is complete when each of its jobs has arrived or was lost."""

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.asked = 0
        self.answers: list[Job] = []

    def begin(self, client: int) -> Job:
        self.asked += 1
        return super().begin(client)

    def arrived(self, job: Job) -> None:
        self.answers.append(job)
        self.close()

    def lost(self, job: Job) -> None:
        self.asked -= 1
        self.close()

    def close(self) -> None:
        if self.asked == len(self.answers):
            answers, self.asked, self.answers = self.answers, 0, []
            if answers:
                self.becomes(self.aggregate(answers))

    def aggregate(self, answers: list[Job]) -> Numbers:
        raise NotImplementedError


class FedAvgOracle(Rounds):
    def aggregate(self, answers: list[Job]) -> Numbers:
        counts = [self.examples[job.client] if self.settings.average == "weighted" else 1 for job in answers]
        w = self.zero
        for n_k, job in zip(counts, answers, strict=True):
            w = add(w, times(n_k / sum(counts), job.end))
        return self.descends(minus(self.w, w))


class FedDynOracle(Rounds):
    """θ^t = (1/|P|) Σ θ_k − h^t/α with h^t = h^{t−1} − (α/m) Σ (θ_k − θ^{t−1})."""

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.g = {client.id: self.zero for client in self.world.clients}
        self.h = self.zero

    def extra(self, client: int, theta: Numbers, w: Numbers) -> Numbers:
        return minus(times(self.settings.alpha, minus(theta, w)), self.g[client])

    def arrived(self, job: Job) -> None:
        self.g[job.client] = minus(self.g[job.client], times(self.settings.alpha, minus(job.end, job.w)))
        super().arrived(job)

    def aggregate(self, answers: list[Job]) -> Numbers:
        moved, models = self.zero, self.zero
        for job in answers:
            moved = add(moved, minus(job.end, self.w))
            models = add(models, job.end)
        self.h = minus(self.h, times(self.settings.alpha / len(self.world.clients), moved))
        return minus(times(1 / len(answers), models), times(1 / self.settings.alpha, self.h))


class FedAsyncOracle(Oracle):
    def extra(self, client: int, theta: Numbers, w: Numbers) -> Numbers:
        return times(self.settings.proximal, minus(theta, w))

    def arrived(self, job: Job) -> None:
        tau = self.t - job.began
        a, b = self.settings.slope, self.settings.grace
        s = {
            "constant": 1.0,
            "polynomial": (tau + 1.0) ** -self.settings.exponent,
            "hinge": 1.0 if tau <= b else 1.0 / (a * (tau - b) + 1.0),
        }[self.settings.discount]
        alpha = self.settings.mixing * s
        if self.settings.mode == "delta":
            self.becomes(minus(self.w, times(alpha, job.delta)))
        else:
            self.becomes(add(times(1 - alpha, self.w), times(alpha, job.end)))


class FedFaOracle(Oracle):
    def __init__(self, *about: Any):
        super().__init__(*about)
        self.queue: deque[Numbers] = deque()

    def arrived(self, job: Job) -> None:
        c = self.settings.queue_size
        self.queue.append(job.delta if self.settings.mode == "delta" else job.end)
        if len(self.queue) > c:
            self.queue.popleft()
        if len(self.queue) < c:
            return
        mean = self.zero
        for q in self.queue:
            mean = add(mean, times(1 / c, q))
        self.becomes(minus(self.w, mean) if self.settings.mode == "delta" else mean)


class Buffered(Oracle):
    def __init__(self, *about: Any):
        super().__init__(*about)
        self.buffer: list[Job] = []

    def arrived(self, job: Job) -> None:
        self.buffer.append(job)
        if len(self.buffer) == self.settings.buffer_size:
            buffer, self.buffer = self.buffer, []
            self.becomes(self.descends(self.direction(buffer)))

    def direction(self, buffer: list[Job]) -> Numbers:
        raise NotImplementedError

    def discounted(self, jobs: list[Job], by: str) -> Numbers:
        """(1/n) Σ s Δ with s from each one's τ, from the smallest τ, or 1."""
        ages = [self.t - job.began for job in jobs]
        mean = self.zero
        for age, job in zip(ages, jobs, strict=True):
            tau = {"each": age, "freshest": min(ages), "none": 0}[by]
            mean = add(mean, times(1 / sqrt(1 + tau) / len(jobs), job.delta))
        return mean


class FedBuffOracle(Buffered):
    def direction(self, buffer: list[Job]) -> Numbers:
        return self.discounted(buffer, self.settings.staleness)


class CA2FLOracle(Buffered):
    """The cache as a full table; h is its mean over all clients, summed anew every time."""

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.cache = {client.id: self.zero for client in self.world.clients}

    def direction(self, buffer: list[Job]) -> Numbers:
        v = self.zero
        for h_i in self.cache.values():
            v = add(v, times(1 / len(self.cache), h_i))
        for job in buffer:
            v = add(v, times(1 / len(buffer), minus(job.delta, self.cache[job.client])))
        for job in buffer:
            self.cache[job.client] = job.delta
        return v


class FADASOracle(Buffered):
    """AMSGrad, one coordinate after another; the rate by the longest delay in the buffer."""

    def arrived(self, job: Job) -> None:
        self.buffer.append(job)
        if len(self.buffer) < self.settings.buffer_size:
            return
        buffer, self.buffer = self.buffer, []
        longest = max(self.t - job.began for job in buffer)
        eta, tau_c = self.settings.adaptive_lr, self.settings.delay_threshold
        eta = min(eta, 1 / longest) if longest > tau_c else eta
        beta1, beta2, eps = self.settings.server_momentum, self.settings.server_beta2, self.settings.server_epsilon
        new = []
        for j, w_j in enumerate(self.w):
            g = sum(job.delta[j] for job in buffer) / len(buffer)
            m, v, top = self.seen.get(j, (0.0, 0.0, 0.0))
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            top = max(top, v)
            self.seen[j] = (m, v, top)
            new.append(w_j - eta * m / (sqrt(top) + eps))
        self.becomes(new)

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.seen: dict[int, tuple[float, float, float]] = {}


class FedStaleWeightOracle(Buffered):
    """Every client's whole history of staleness is kept, and averaged anew each time."""

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.history: dict[int, list[int]] = {}

    def direction(self, buffer: list[Job]) -> Numbers:
        for job in buffer:
            self.history.setdefault(job.client, []).append(self.t - job.began)
        share = []
        for job in buffer:
            taus = self.history[job.client]
            share.append(Fraction(self.settings.buffer_size * sum(taus), len(taus)) + 1)
        mean = self.zero
        for p, job in zip(share, buffer, strict=True):
            mean = add(mean, times(float(p / sum(share)), job.delta))
        return mean


class ACEOracle(Oracle):
    """The cache as a full table, summed anew at every arrival."""

    def __init__(self, *about: Any):
        super().__init__(*about)
        self.cache: dict[int, Job] = {}

    def arrived(self, job: Job) -> None:
        most = self.settings.max_staleness
        if self.t - job.began > most:
            return
        self.cache[job.client] = job
        active = [cached for cached in self.cache.values() if self.t - cached.began <= most]
        u = self.zero
        for cached in active:
            u = add(u, cached.delta)
        n = len(self.world.clients) if most == float("inf") else len(active)
        self.becomes(minus(self.w, times(self.settings.arrival_lr / n, u)))


class AFBSOracle(Buffered):
    """Algorithm 2 with exact fractions. `drop = "random"` has no equation: see the unit tests."""

    def direction(self, buffer: list[Job]) -> Numbers:
        return self.discounted(self.selected(buffer), self.settings.weights)

    def selected(self, buffer: list[Job]) -> list[Job]:
        key = Key.root(self.seed, "select").child(self.t)
        volume = [self.examples[job.client] for job in buffer]
        tau = [self.t - job.began for job in buffer]
        group = [self.cluster[job.client] if self.settings.clustering else 0 for job in buffer]
        score = [Fraction(v, (age + 1) ** 2) for v, age in zip(volume, tau, strict=True)]
        kept = []
        for x, job in enumerate(buffer):
            same = [y for y in range(len(buffer)) if group[y] == group[x]]
            best = min(same, key=lambda y: (-score[y], tau[y], y))
            fine = volume[x] >= volume[best] or tau[x] <= tau[best]
            among = {"buffer": range(len(buffer)), "cluster": same, "none": []}[self.settings.survival]
            chance = score[x] / max(score[y] for y in among) if among else 0
            if fine or key.uniform(x) < chance:
                kept.append(job)
        return kept


ORACLES = {
    "ace": ACEOracle,
    "afbs": AFBSOracle,
    "ca2fl": CA2FLOracle,
    "fadas": FADASOracle,
    "fedasync": FedAsyncOracle,
    "fedavg": FedAvgOracle,
    "fedbuff": FedBuffOracle,
    "feddyn": FedDynOracle,
    "fedfa": FedFaOracle,
    "fedstaleweight": FedStaleWeightOracle,
}
discounts = st.sampled_from(["each", "freshest", "none"])
sizes = st.integers(1, 5)
server = {
    "server": st.sampled_from(["sgd", "sgd", "momentum", "adam", "yogi"]),
    "server_lr": st.sampled_from([1.0, 0.5, 0.1]),
    "server_momentum": st.sampled_from([0.0, 0.5, 0.9]),
    "server_beta2": st.sampled_from([0.9, 0.99]),
    "server_epsilon": st.sampled_from([0.01, 0.1]),
}
ALGORITHMS: dict[str, st.SearchStrategy[Algorithm[Any]]] = {
    "ace": st.builds(
        ACE,
        arrival_lr=st.sampled_from([0.1, 0.5, 1.0]),
        max_staleness=st.sampled_from([float("inf"), float("inf"), 0.0, 1.0, 3.0]),
    ),
    "afbs": st.builds(
        AFBS,
        buffer_size=sizes,
        **server,
        survival=st.sampled_from(["buffer", "cluster", "none"]),
        clustering=st.booleans(),
        weights=discounts,
    ),
    "ca2fl": st.builds(CA2FL, buffer_size=sizes, **server),
    "fadas": st.builds(
        FADAS,
        buffer_size=sizes,
        adaptive_lr=st.sampled_from([0.1, 0.5, 1.0]),
        delay_threshold=st.sampled_from([float("inf"), 0.0, 2.0]),
        server_momentum=server["server_momentum"],
        server_beta2=server["server_beta2"],
        server_epsilon=server["server_epsilon"],
    ),
    "fedasync": st.builds(
        FedAsync,
        mixing=st.sampled_from([0.1, 0.6, 1.0]),
        discount=st.sampled_from(["polynomial", "constant", "hinge"]),
        exponent=st.sampled_from([0.5, 1.0]),
        slope=st.sampled_from([0.5, 10.0]),
        grace=st.integers(0, 3),
        proximal=st.sampled_from([0.0, 0.005, 0.5]),
        mode=st.sampled_from(["model", "delta"]),
    ),
    "fedavg": st.builds(FedAvg, average=st.sampled_from(["weighted", "uniform"]), **server),
    "fedbuff": st.builds(FedBuff, buffer_size=sizes, staleness=discounts, **server),
    "feddyn": st.builds(FedDyn, alpha=st.sampled_from([0.01, 0.1, 1.0])),
    "fedfa": st.builds(FedFa, queue_size=sizes, mode=st.sampled_from(["model", "delta"])),
    "fedstaleweight": st.builds(FedStaleWeight, buffer_size=sizes, **server),
}


@dataclass(frozen=True)
class Schedule:
    """What decides who is asked when and arrives when: ties are common, and jobs get lost."""

    seed: int
    clients: int
    in_flight: int
    high: int
    per: Any
    loss: float


schedules = st.builds(
    Schedule,
    seed=st.integers(0, 2**32),
    clients=st.integers(5, 9),
    in_flight=st.integers(1, 6),
    high=st.sampled_from([1, 5, 40]),
    per=st.sampled_from(["client", "job"]),
    loss=st.sampled_from([0.0, 0.0, 0.3]),
)


def close(actual: Any, expected: Any) -> bool:
    """Equal to 1e-9 of the larger of one and the numbers' size: a thousand times tighter than asked for."""
    return bool(np.allclose(actual, expected, rtol=1e-9, atol=1e-9))


def test_every_algorithm_has_an_oracle() -> None:
    elsewhere = ["fedcompass"]  # in a file of its own, with clients whose latency follows their work
    assert sorted([*ORACLES, *elsewhere]) == sorted([*ALGORITHMS, *elsewhere]) == registry.names("algorithm")


@pytest.mark.parametrize("world_of", [quadratic, network])
@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=100)
@given(data=st.data())
def test_an_algorithm_agrees_with_its_papers_equations(name: str, world_of: Any, data: st.DataObject) -> None:
    algorithm = data.draw(ALGORITHMS[name])
    schedule = data.draw(schedules)
    world = world_of(schedule.clients, schedule.seed)
    outcome = drive(
        algorithm,
        world,
        seed=schedule.seed,
        in_flight=schedule.in_flight,
        horizon=schedule.high * 8.0,
        latency=Uniform(1, schedule.high, schedule.per),
        availability=Losses(schedule.loss),
    )
    oracle = ORACLES[name](algorithm, world, schedule.seed)
    jobs: dict[int, Job] = {}
    for event in outcome.events:
        if isinstance(event, Dispatched):
            jobs[event.order.sequence] = oracle.begin(event.order.client)
        elif isinstance(event, Arrived):
            oracle.arrived(jobs.pop(event.update.order.sequence))
        elif isinstance(event, Lost):
            oracle.lost(jobs.pop(event.order.sequence))

    assert len(outcome.models) == len(oracle.versions)
    for model, expected in zip(outcome.models, oracle.versions, strict=True):
        assert close(model, expected)
    if isinstance(oracle, FedDynOracle):
        assert close(outcome.memories[-1]["h"], oracle.h)
        for client, dual in outcome.duals.items():
            assert close(dual, oracle.g[client])
    if isinstance(oracle, CA2FLOracle):
        for client, cached in oracle.cache.items():
            assert close(outcome.memories[-1].get(f"client/{client}", oracle.zero), cached)
