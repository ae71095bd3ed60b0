"""Where two algorithms, or an algorithm and a formula, must agree exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.ca2fl import CA2FL
from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.algorithms.fedfa import FedFa
from afbs.interfaces import Algorithm
from afbs.latency.uniform import Uniform
from afbs.types import ClientInfo, Order, Step, Update
from federation import Losses, World, drive, network, quadratic

seeds = st.integers(0, 2**32)
worlds = st.builds(lambda make, seed: make(7, seed), st.sampled_from([quadratic, network]), seeds)


def same_models(a: Algorithm[Any], b: Algorithm[Any], world: World, seed: int, **run: Any) -> bool:
    """Bit for bit, version for version."""
    first = drive(a, world, seed=seed, **run)
    second = drive(b, world, seed=seed, **run)
    assert len(first.models) > 2
    return np.array_equal(first.models, second.models)


def with_equal_volumes(world: World) -> World:
    return replace(world, clients=[replace(client, examples=20) for client in world.clients])


@given(worlds, seeds)
def test_fedfa_with_a_queue_of_one_is_fedasync_that_takes_every_model_as_it_is(world: World, seed: int) -> None:
    taking_all = FedAsync(mixing=1.0, discount="constant", proximal=0.0)
    assert same_models(FedFa(queue_size=1), taking_all, world, seed, availability=Losses(0.2))


@given(worlds, seeds)
def test_fedfa_with_a_queue_of_one_delta_is_fedasync_on_deltas(world: World, seed: int) -> None:
    adding_all = FedAsync(mixing=1.0, discount="constant", proximal=0.0, mode="delta")
    assert same_models(FedFa(queue_size=1, mode="delta"), adding_all, world, seed)


@given(worlds, seeds, st.integers(1, 5))
def test_ca2fls_first_step_is_fedbuffs_without_weights(world: World, seed: int, size: int) -> None:
    calibrated = drive(CA2FL(buffer_size=size), world, seed=seed)
    plain = drive(FedBuff(buffer_size=size, staleness="none"), world, seed=seed)
    np.testing.assert_allclose(calibrated.models[1], plain.models[1], rtol=1e-12)
    assert not np.allclose(calibrated.models[2], plain.models[2], rtol=1e-6)


@given(worlds, seeds)
def test_afbs_drops_nothing_from_equal_volumes_and_is_then_fedbuff_with_the_same_discount(
    world: World, seed: int
) -> None:
    equal = with_equal_volumes(world)
    for discount in ("each", "freshest", "none"):
        selecting = AFBS(buffer_size=4, weights=discount)
        assert same_models(selecting, FedBuff(buffer_size=4, staleness=discount), equal, seed)


@given(worlds, seeds)
def test_fedbuff_of_a_cohort_that_arrives_together_is_uniform_fedavg(world: World, seed: int) -> None:
    together: dict[str, Any] = {"in_flight": 4, "latency": Uniform(10, 10), "horizon": 55.0}
    rounds = drive(FedAvg(average="uniform"), world, seed=seed, **together)
    buffered = drive(FedBuff(buffer_size=4, staleness="none"), world, seed=seed, **together)
    assert len(rounds.models) == len(buffered.models) == 6
    np.testing.assert_allclose(rounds.models, buffered.models, rtol=1e-12)


@given(worlds, seeds, st.integers(1, 7))
def test_feddyns_first_round_overshoots_the_plain_mean_by_one_plus_the_share_that_took_part(
    world: World, seed: int, cohort: int
) -> None:
    outcome = drive(FedDyn(), world, seed=seed, in_flight=cohort, latency=Uniform(10, 10), horizon=15.0)
    rule, zero = FedDyn().local, np.zeros_like(world.start)
    ends = [world.train(rule, order.client, world.start, zero)[0] for order in outcome.orders[:cohort]]
    mean = world.start - np.mean(ends, axis=0)
    np.testing.assert_allclose(outcome.models[1], world.start - (1 + cohort / 7) * mean, rtol=1e-9)


@given(worlds, seeds)
def test_ca2fl_moves_by_the_update_itself_once_every_client_always_sends_the_same(world: World, seed: int) -> None:
    slope = np.arange(1.0, len(world.start) + 1)
    same = replace(world, gradient=lambda client, params: slope)
    outcome = drive(CA2FL(buffer_size=3), same, seed=seed, horizon=400.0)
    assert len(outcome.memories[-1]) == 1 + 7  # everybody has been heard
    update = same.steps * same.lr * slope
    np.testing.assert_allclose(outcome.models[-2] - outcome.models[-1], update, rtol=1e-9)


def step_of(clients: list[int], version: int, known: int) -> Step:
    used = tuple(Update(Order(client, version, 0, 0, 0.0), version, 1, 0) for client in clients)
    return Step(used, notes={"clients": known})


@pytest.mark.parametrize("steps", [999, 10_000])
def test_ca2fls_running_sum_is_the_sum_of_its_cache(steps: int) -> None:
    """In single precision, just before the sum is renewed for the first time, and after ten thousand steps."""
    rng = np.random.default_rng(steps)
    algorithm = CA2FL(buffer_size=10)
    params = np.zeros(50, np.float32)
    memory = algorithm.begin(params)
    for version in range(steps):
        chosen = rng.choice(60, 10, replace=False).tolist()
        rows = rng.normal(size=(10, 50)).astype(np.float32)
        memory, params = algorithm.apply(memory, params, step_of(chosen, version, 60), rows)
    cache = np.array([memory[f"client/{client}"] for client in range(60)], np.float64)
    scale = np.abs(cache).mean(axis=0)
    error = np.abs(memory["sum"] / 60 - cache.mean(axis=0)) / scale
    assert error.max() < (1e-6 if steps % 1000 == 0 else 1e-5)


def test_ca2fl_divides_by_all_clients_there_are_when_one_joins() -> None:
    algorithm = CA2FL(buffer_size=1)
    state = algorithm.init([ClientInfo(0, 5)])
    state = algorithm.joined(state, ClientInfo(0, 5, cluster=3))
    assert len(state.clients) == 1
    state = algorithm.joined(state, ClientInfo(1, 5))
    params = np.zeros(1, np.float32)
    memory = algorithm.begin(params)
    memory, params = algorithm.apply(memory, params, step_of([0], 0, 1), np.array([[4.0]]))
    assert params == -4.0
    memory, params = algorithm.apply(memory, params, step_of([1], 1, len(state.clients)), np.array([[6.0]]))
    assert params == -4.0 - (4.0 / 2 + 6.0)


def test_fedasync_is_as_fast_as_its_mixing_and_staleness_allow() -> None:
    """With updates of equal size d, mixing a and mean staleness τ the model moves by a·d/(1 + aτ) a version."""
    world = replace(quadratic(40, 0), gradient=lambda client, params: np.ones_like(params))
    mixing, in_flight = 0.055, 20
    algorithm = FedAsync(mixing=mixing, discount="constant", proximal=0.0)
    outcome = drive(algorithm, world, in_flight=in_flight, horizon=4_000.0, latency=Uniform(1, 100, "job"))
    moved = outcome.models[500][0] - outcome.models[-1][0]
    speed = moved / (len(outcome.models) - 1 - 500)
    staleness = np.mean([arrival.update.staleness for arrival in outcome.arrivals])
    assert staleness == pytest.approx(in_flight - 1, rel=0.02)
    assert speed == pytest.approx(mixing * world.steps * world.lr / (1 + mixing * staleness), rel=0.02)
