"""The convergence theorem in the AFBS paper's supplement is false; a corrected bound holds. Both are shown here on
f(w) = w²/2 from w = 1 with exact gradients, nothing stale and one local step, where L = G = Q = 1 and σ = 0."""

from __future__ import annotations

import numpy as np
import pytest

from afbs.algorithms.afbs import AFBS
from afbs.types import Order, Step, Update


def mean_squared_gradient(lr: float, steps: int) -> float:
    """(1/T) Σ ‖∇f(w^t)‖² of AFBS itself, with a buffer of ten updates lr·w."""
    algorithm = AFBS()
    used = tuple(Update(Order(client, 0, 0, client, 0.0), 0, 5, client) for client in range(10))
    step = Step(used, weights=algorithm.weigh(used))
    params, squared = np.array([1.0]), 0.0
    for _ in range(steps):
        squared += float(params[0]) ** 2
        _, params = algorithm.apply({}, params, step, np.full((10, 1), lr * params[0]))
    return squared / steps


def claimed(lr: float, steps: int) -> float:
    """2(f⁰ − f*)/(η_g T) + (L η_g + 1) Q β / C_min · (σ_ℓ² + σ_g² + G), with β = lr²."""
    return 2 * 0.5 / steps + 2 * lr**2 / 10


def corrected(lr: float, steps: int) -> float:
    """2(f⁰ − f*)/(η_g α Λ) + 2σ_g² + 4L²Qβm²(1 + η_g²τ²) + L η_g Q β m²/α, with α = lr, λ = 1 and τ = 0."""
    return 2 * 0.5 / (lr * steps) + 4 * lr**2 + lr


def test_the_papers_bound_is_broken_at_its_own_learning_rate() -> None:
    left = mean_squared_gradient(0.01, 20_000)
    assert left == pytest.approx(2.5e-3, rel=0.02)
    assert left / claimed(0.01, 20_000) == pytest.approx(36, rel=0.02)


@pytest.mark.parametrize(("lr", "steps"), [(0.01, 20_000), (0.1, 1_000), (0.5, 100)])
def test_the_corrected_bound_holds(lr: float, steps: int) -> None:
    assert mean_squared_gradient(lr, steps) <= corrected(lr, steps)


def test_the_mean_of_equal_updates_is_not_a_tenth_as_large() -> None:
    """The proof's "Jensen" step claims ‖(1/C) Σ Δ‖² ≤ (1/C²) Σ ‖Δ‖²."""
    updates = np.tile([3.0, 4.0], (10, 1))
    assert np.sum(updates.mean(axis=0) ** 2) == 25.0
    assert np.sum(updates**2) / 100 == 2.5


def test_a_product_is_not_half_the_difference_of_two_squares() -> None:
    """The proof's "Cauchy-Schwarz" step claims ⟨a, b⟩ ≥ ½‖a‖² − ½‖b‖²."""
    a, b = np.array([1.0, 0.0]), np.array([0.0, 0.1])
    assert a @ b == 0.0
    assert a @ a / 2 - b @ b / 2 == pytest.approx(0.495)
