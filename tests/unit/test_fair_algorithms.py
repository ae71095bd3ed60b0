"""FADAS, FedStaleWeight and ACE: numbers worked by hand, and what they never do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.algorithms.ace import ACE
from afbs.algorithms.fadas import FADAS
from afbs.algorithms.fedstaleweight import FedStaleWeight
from afbs.interfaces import Algorithm
from afbs.seeds import Key
from afbs.types import ClientInfo, Order, Step, Update
from tiny import settings

KEY = Key.root(0, "test")


def update(client: int, base: int, version: int, sequence: int = 0) -> Update:
    return Update(Order(client, base, 0, sequence, 0.0), version, 10, sequence)


def rows(*vectors: list[float]) -> Any:
    return np.array(vectors, np.float32)


def test_fadas_moves_by_its_rate_where_the_mean_never_changes() -> None:
    """With β₁ = β₂ = 0, m = Δ and v̂ = Δ²: the first step is η sign(Δ), up to ε."""
    fadas = FADAS(2, adaptive_lr=0.5, server_momentum=0.0, server_beta2=0.0, server_epsilon=1e-6)
    start = np.zeros(2, np.float32)
    step = Step((update(0, 0, 0, 0), update(1, 0, 0, 1)), weights=(0.5, 0.5))
    memory, model = fadas.apply(fadas.begin(start), start, step, rows([2, -4], [4, -4]))
    assert model == pytest.approx([-0.5, 0.5], abs=1e-5)
    assert memory["largest"].tolist() == [9, 16]


def test_fadas_never_forgets_how_large_a_mean_was() -> None:
    """v falls back to 1 after Δ = 3, its maximum stays at 9: the second step is 1/3 of the rate."""
    fadas = FADAS(1, adaptive_lr=0.3, server_momentum=0.0, server_beta2=0.0, server_epsilon=1e-6)
    start = np.zeros(1, np.float32)
    step = Step((update(0, 0, 0),), weights=(1.0,))
    memory, first = fadas.apply(fadas.begin(start), start, step, rows([3]))
    _, second = fadas.apply(memory, first, step, rows([1]))
    assert second - first == pytest.approx([-0.1], abs=1e-5)


@pytest.mark.parametrize(("longest", "rate"), [(0, 0.5), (4, 0.5), (5, 0.2), (1, 0.5)])
def test_fadas_shortens_a_step_beyond_its_threshold(longest: int, rate: float) -> None:
    assert FADAS(adaptive_lr=0.5, delay_threshold=4).rate(longest) == rate


def test_fedstaleweight_weighs_by_the_average_over_all_that_a_client_has_sent() -> None:
    """Client 0 sends with staleness 0, then 4: 2 on average, so with C = 2 it weighs 5 to client 1's 1."""
    algorithm = FedStaleWeight(2)
    state, _ = algorithm.receive(algorithm.init([]), update(0, 0, 0, 0), KEY)
    state, _ = algorithm.receive(state, update(1, 0, 0, 1), KEY)
    state, _ = algorithm.receive(state, update(0, 0, 4, 2), KEY)
    state, step = algorithm.receive(state, update(2, 4, 4, 3), KEY)
    assert step is not None
    assert step.notes == {"average_staleness": {"0": 2.0, "2": 0.0}}
    _, model = algorithm.apply({}, np.zeros(2, np.float32), step, rows([6, 0], [0, 6]))
    assert model.tolist() == [-5, -1]


def test_fedstaleweight_makes_everybody_count_alike() -> None:
    """One client sends k times as often as another with 1/k of its staleness: their sums of weights agree."""
    fair = FedStaleWeight(10).fair
    slow, *quick = fair([3.9, *[0.9] * 4])
    assert slow == pytest.approx(4 * quick[0])
    assert slow + sum(quick) == pytest.approx(1)


def test_fedstaleweight_does_without_an_update_that_is_not_finite() -> None:
    algorithm = FedStaleWeight(2)
    step = Step((update(2, 4, 4, 3),), notes={"average_staleness": {"0": 2.0, "2": 0.0}}, weights=(1.0,))
    _, model = algorithm.apply({}, np.zeros(1, np.float32), step, rows([6]))
    assert model.tolist() == [-6]


def test_ace_steps_along_the_mean_of_everybodys_latest() -> None:
    """Four clients. 8 from the first: the mean is 2. 4 from the second: 3. 0 from the first: 1."""
    ace = ACE(arrival_lr=1.0)
    state = ace.init([ClientInfo(i, 1) for i in range(4)])
    model = np.zeros(1, np.float32)
    memory = ace.begin(model)
    seen = []
    for sequence, (client, vector) in enumerate([(0, 8), (1, 4), (0, 0)]):
        state, step = ace.receive(state, update(client, sequence, sequence, sequence), KEY)
        assert step is not None
        memory, model = ace.apply(memory, model, step, rows([vector]))
        seen.append(model.item())
    assert seen == [-2, -5, -6]


def test_aced_forgets_what_began_too_long_ago() -> None:
    """At version 2 what began at version 0 is too old for `max_staleness = 1`: the mean is over the other two."""
    ace = ACE(arrival_lr=1.0, max_staleness=1)
    state = ace.init([ClientInfo(i, 1) for i in range(4)])
    model = np.zeros(1, np.float32)
    memory = ace.begin(model)
    seen = []
    for sequence, (client, base, vector) in enumerate([(0, 0, 8), (1, 1, 4), (2, 2, 1)]):
        state, step = ace.receive(state, update(client, base, sequence, sequence), KEY)
        assert step is not None
        memory, model = ace.apply(memory, model, step, rows([vector]))
        seen.append(model.item())
    assert seen == [-8, -14, -16.5]
    state, step = ace.receive(state, update(3, 0, 3, 3), KEY)
    assert step is None
    _, step = ace.receive(state, update(1, 3, 3, 4), KEY)
    assert step is not None
    assert [late.client for late in step.dropped] == [3]
    assert step.why == ("in time", "too stale")


@pytest.mark.parametrize(
    "algorithm",
    [FADAS(4, delay_threshold=2), FedStaleWeight(4), ACE(), ACE(max_staleness=3)],
    ids=["fadas", "fedstaleweight", "ace", "aced"],
)
def test_they_decide_by_metadata_and_train_only_what_counts(algorithm: Algorithm[Any], tmp_path: Path) -> None:
    assert not algorithm.looks
    afbs.run(settings(), algorithm=algorithm, folder=tmp_path / "run", progress=False)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    updates = result["updates"]
    assert result["jobs"]["trained"] == updates["used"] > 20
    assert result["jobs"]["skipped"] == updates["dropped"]
    assert bool(updates["dropped"]) == (algorithm == ACE(max_staleness=3))
