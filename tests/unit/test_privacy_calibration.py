from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from afbs.core.calibration import gaussian_delta, gaussian_epsilon, largest_advantage, noise_multiplier
from afbs.privacy.dp import Budget, DifferentiallyPrivate
from afbs.privacy.keys import Secrets
from afbs.privacy.messages import RefusedError

PUBLISHED = [(0.5, 7.032), (1.0, 3.731), (2.0, 1.994), (4.0, 1.081), (8.0, 0.600)]


@pytest.mark.parametrize(("epsilon", "multiplier"), PUBLISHED)
def test_the_multiplier_is_the_analytic_gaussian_mechanisms(epsilon: float, multiplier: float) -> None:
    assert noise_multiplier(epsilon, 1e-5) == pytest.approx(multiplier, abs=6e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_opendp_agrees_that_the_noise_keeps_the_promise(epsilon: float, delta: float) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    scale = math.sqrt(2) * noise_multiplier(epsilon, delta)
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audited = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta)
    # OpenDP bounds the loss by way of zero-concentrated privacy, which needs a little more: never less.
    loss = audited.map(math.sqrt(2))[0]
    assert epsilon <= loss <= 1.35 * epsilon + 0.02


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_less_noise_is_needed_than_by_the_classical_bound(epsilon: float) -> None:
    assert noise_multiplier(epsilon, 1e-5) < math.sqrt(2 * math.log(1.25e5)) / epsilon


def test_the_delta_is_what_numerical_integration_gives() -> None:
    epsilon, multiplier = 1.3, 0.9
    x = np.linspace(-12, 12, 2_000_001)
    densities = [np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (1 / multiplier, 0.0)]
    excess = np.maximum(densities[0] - math.exp(epsilon) * densities[1], 0)
    assert gaussian_delta(epsilon, multiplier) == pytest.approx(np.trapezoid(excess, x), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 30.0, 3000.0])
def test_epsilon_and_multiplier_are_inverse(epsilon: float) -> None:
    assert gaussian_epsilon(noise_multiplier(epsilon, 1e-6), 1e-6) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize(("classes", "epsilon"), [(10, 1680), (100, 15242)])
def test_the_papers_noise_promises_next_to_nothing(classes: int, epsilon: float) -> None:
    per_label = 1e-3 / math.sqrt(classes)
    assert gaussian_epsilon(per_label / (math.sqrt(2) / 83), 1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_no_advantage_is_allowed_at_no_epsilon_and_all_of_it_at_a_large_one() -> None:
    assert largest_advantage(0.0, 0.0) == 0.0
    assert largest_advantage(2.0, 0.0) == pytest.approx((math.e**2 - 1) / (math.e**2 + 1))
    assert largest_advantage(30.0, 1e-5) == pytest.approx(1.0)


def test_noise_is_the_sensitivity_times_the_multiplier() -> None:
    assert DifferentiallyPrivate(epsilon=1.0).sigma == pytest.approx(5.28, abs=0.01)
    assert DifferentiallyPrivate(epsilon=1.0, adjacency="add_remove").sigma == pytest.approx(3.731, abs=0.001)


def test_two_planned_releases_have_more_noise_each_and_together_cost_the_same() -> None:
    once, twice = Budget(2.0, 1e-5, 1), Budget(2.0, 1e-5, 2)
    assert twice.multiplier() == pytest.approx(once.multiplier() * math.sqrt(2))
    assert gaussian_epsilon(twice.multiplier() / math.sqrt(2), 1e-5) == pytest.approx(2.0, rel=1e-5)


def test_a_release_that_was_not_planned_is_refused() -> None:
    secrets, counts = Secrets(b"o" * 32), np.array([4, 0, 9])
    with pytest.raises(RefusedError, match="planned for 1 release"):
        DifferentiallyPrivate().sketch(counts, secrets, 1)
    planned = DifferentiallyPrivate(releases=2)
    assert not np.array_equal(planned.sketch(counts, secrets, 0), planned.sketch(counts, secrets, 1))
    with pytest.raises(RefusedError):
        planned.sketch(counts, secrets, 2)


def test_asking_twice_for_the_same_release_tells_no_more() -> None:
    secrets, counts = Secrets(b"o" * 32), np.array([4, 0, 9])
    first, second = (DifferentiallyPrivate().sketch(counts, secrets, 0) for _ in range(2))
    assert np.array_equal(first, second)


def test_other_counts_get_other_noise() -> None:
    """Were the noise the same, the difference of two answers would be the exact difference of the counts."""
    secrets = Secrets(b"o" * 32)
    one, other = np.array([400, 0, 900]), np.array([401, 0, 899])
    answers = [DifferentiallyPrivate().sketch(counts, secrets, 0) - counts for counts in (one, other)]
    assert not np.allclose(answers[0], answers[1])


def test_the_noise_has_the_stated_spread_and_the_counts_are_whole() -> None:
    mechanism, counts = DifferentiallyPrivate(epsilon=1.0), np.array([50, 0, 7, 12])
    draws = np.array([mechanism.sketch(counts, Secrets(i.to_bytes(32, "big")), 0) for i in range(2000)])
    assert np.array_equal(draws, np.rint(draws))
    assert np.allclose(draws.mean(axis=0), counts, atol=5 * mechanism.sigma / 2000**0.5)
    assert np.allclose(draws.std(axis=0), mechanism.sigma, rtol=0.08)
