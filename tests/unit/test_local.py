from __future__ import annotations

import numpy as np
import pytest
import torch

from afbs.core.local import Dynamic, Proximal
from afbs.interfaces import LocalRule, Plain

START, PARAMS, DUAL = [1.0, 2.0], [3.0, 1.0], [0.5, -0.5]
libraries = pytest.mark.parametrize("vector", [np.array, torch.tensor], ids=["numpy", "torch"])


@libraries
def test_the_proximal_term_pulls_back_to_the_start(vector: object) -> None:
    pull = Proximal(0.5).gradient(vector(PARAMS), vector(START), None)  # type: ignore[operator]
    assert pull.tolist() == [1.0, -0.5]


@libraries
def test_the_dynamic_term_pulls_back_less_what_the_client_remembers(vector: object) -> None:
    pull = Dynamic(0.5).gradient(vector(PARAMS), vector(START), vector(DUAL))  # type: ignore[operator]
    assert pull.tolist() == [0.5, 0.0]


@libraries
def test_the_dynamic_clients_memory_moves_against_its_drift(vector: object) -> None:
    dual = Dynamic(0.5).finish(vector(DUAL), vector(START), vector(PARAMS))  # type: ignore[operator]
    assert dual.tolist() == [-0.5, 0.0]


def test_only_the_dynamic_client_remembers_anything() -> None:
    assert [rule.stateful for rule in (Plain(), Proximal(0.1), Dynamic(0.1))] == [False, False, True]
    plain: LocalRule = Plain()
    assert plain.gradient(PARAMS, START, None) is None


def test_where_the_gradient_vanishes_the_dynamic_clients_loss_has_the_slope_it_remembers() -> None:
    """At the minimum of f(θ) − ⟨g, θ⟩ + (α/2)‖θ − w‖² the new g is ∇f(θ), for f(θ) = ½(θ − 4)²."""
    rule, start, dual, theta = Dynamic(0.5), 1.0, 0.25, 1.0
    for _ in range(200):
        theta -= 0.3 * ((theta - 4.0) + rule.gradient(theta, start, dual))
    assert rule.finish(dual, start, theta) == pytest.approx(theta - 4.0)
