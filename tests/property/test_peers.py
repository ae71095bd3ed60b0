"""Our aggregation beside that of other frameworks, on the same arrivals: equal once the known difference is set.

Each peer's formula is transcribed here from its own file, which is named; docs/baselines.md has the same in words. The
last test runs FLGO's own code.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from afbs.algorithms.fedasync import FedAsync
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.interfaces import Algorithm
from afbs.types import Arrived, Decided, Order, Step, Update
from federation import drive, quadratic


class Arrivals:
    """A buffer: what the server's model is, what arrived, and how stale each is."""

    def __init__(self, seed: int, staleness: list[int]):
        rng = np.random.default_rng(seed)
        self.model: NDArray[Any] = rng.normal(size=4)
        self.updates: NDArray[Any] = rng.normal(size=(len(staleness), 4))
        """Start minus end."""
        self.staleness = staleness

    def by(self, algorithm: Algorithm[Any], vectors: Any = None, **notes: int) -> Any:
        now = max(self.staleness)
        used = tuple(Update(Order(i, now - age, 0, i, 0.0), now, 1, i) for i, age in enumerate(self.staleness))
        step = Step(used, notes=notes, weights=algorithm.weigh(used))
        rows = self.updates if vectors is None else vectors
        return algorithm.apply(algorithm.begin(self.model), self.model, step, rows)[1]


buffers = st.builds(Arrivals, st.integers(0, 2**32), st.lists(st.integers(0, 9), min_size=1, max_size=6))
single = st.builds(Arrivals, st.integers(0, 2**32), st.lists(st.integers(0, 30), min_size=1, max_size=1))
close = np.testing.assert_allclose


@given(buffers)
def test_flgos_fedbuff_is_ours(given: Arrivals) -> None:
    """flgo/algorithm/fedbuff.py: a sum with (1+τ)^-½, by the size of the buffer, on end minus start."""
    total = sum((1 + tau) ** -0.5 * -delta for tau, delta in zip(given.staleness, given.updates, strict=True))
    close(given.by(FedBuff()), given.model + 1.0 * total / len(given.staleness))


@given(buffers, st.sampled_from([0.1, 1.0]))
def test_flsims_fedbuff_is_ours_with_another_rate(given: Arrivals, lr: float) -> None:
    """async_staleness_weights.py divides each weight by that of staleness 1; async_aggregators.py adds without a
    mean. So its lr is our `server_lr`, times the buffer's size and √2."""
    theirs = given.model.copy()
    for tau, delta in zip(given.staleness, given.updates, strict=True):
        theirs -= lr * ((1 / sqrt(1 + tau)) / (1 / sqrt(1 + 1))) * delta
    close(given.by(FedBuff(server_lr=lr * len(given.staleness) * sqrt(2))), theirs)


@given(buffers, st.integers(6, 50))
def test_appfls_fedbuff_is_ours_with_another_rate(given: Arrivals, clients: int) -> None:
    """fedbuff_aggregator.py, `gradient_based`: every update counts for one of all clients, not one of the buffer, with
    α = 0.9. Here with the polynomial and a = ½."""
    theirs = given.model.copy()
    for tau, delta in zip(given.staleness, given.updates, strict=True):
        theirs += 0.9 * (tau + 1) ** -0.5 / clients * -delta
    close(given.by(FedBuff(server_lr=0.9 * len(given.staleness) / clients)), theirs)


def nvflare(given: Arrivals, weighted: bool) -> Any:
    """buff_model_manager.py: the version goes up first; updates of one version are averaged, versions are added."""
    groups: dict[int, list[Any]] = {}
    for tau, delta in zip(given.staleness, given.updates, strict=True):
        groups.setdefault(tau + 1, []).append(-delta)
    theirs = given.model.copy()
    for age, group in groups.items():
        theirs += (1 / (1 + age**0.5) if weighted else 1.0) * sum(group) / len(group)
    return theirs


@given(st.builds(Arrivals, st.integers(0, 2**32), st.integers(0, 9).flatmap(lambda tau: st.just([tau] * 4))))
def test_nvflares_fedbuff_is_ours_only_where_all_began_with_one_version(given: Arrivals) -> None:
    close(given.by(FedBuff(staleness="none")), nvflare(given, weighted=False))
    age = given.staleness[0] + 1
    other = FedBuff(staleness="none", server_lr=1 / (1 + sqrt(age)))
    close(given.by(other), nvflare(given, weighted=True))


def test_nvflares_fedbuff_steps_once_for_every_version_in_the_buffer() -> None:
    """Three updates of 1 from three versions: the mean is 1, the sum of the versions' means is 3."""
    given = Arrivals(0, [0, 1, 2])
    given.model, given.updates = np.zeros(1), np.ones((3, 1))
    assert given.by(FedBuff(staleness="none")).item() == pytest.approx(-1)
    assert nvflare(given, weighted=False).item() == pytest.approx(-3)


@given(buffers)
def test_platos_fedbuff_is_ours_without_weights(given: Arrivals) -> None:
    """plato/servers/strategies/aggregation/fedbuff.py: the plain mean."""
    close(
        given.by(FedBuff(staleness="none")), given.model + sum(-delta / len(given.updates) for delta in given.updates)
    )


@given(single)
def test_flgos_fedasync_is_ours_but_for_the_hinge(given: Arrivals) -> None:
    """flgo/algorithm/fedasync.py: the polynomial is the paper's, the hinge lacks its + 1."""
    (tau,), end = given.staleness, given.model - given.updates[0]

    def flgo(s: float) -> Any:
        return (1 - 0.6 * s) * given.model + 0.6 * s * end

    close(given.by(FedAsync(), end[None]), flgo((tau + 1) ** -0.5))
    paper = given.by(FedAsync(discount="hinge"), end[None])
    if tau <= 6:
        close(paper, flgo(1.0))
    else:
        close(paper, flgo(1.0 / (10 * (tau - 6) + 1)))
        assert 1.0 / (10 * (tau - 6)) > 1.0 / (10 * (tau - 6) + 1)


@given(buffers, st.integers(6, 50))
def test_flgos_feddyn_is_ours(given: Arrivals, clients: int) -> None:
    """flgo/algorithm/feddyn.py, in its own signs, from h = 0."""
    ends = given.model - given.updates
    h = -0.1 / clients * (ends.sum(axis=0) - len(ends) * given.model)
    close(given.by(FedDyn(), clients=clients), ends.mean(axis=0) - h / 0.1)


def flgo_modules(folder: Path, put: Callable[[Any, str, Any], None]) -> ModuleType:
    """FLGO's FedBuff as published, on a base class of ours: all of it that does not aggregate is left out."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "flgo==0.4.4"]
    subprocess.run(download, check=True)
    (wheel,) = folder.glob("flgo-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)

    class AsyncServer:
        def init_algo_para(self, settings: dict[str, float]) -> None:
            self.__dict__.update(settings)

        def is_package_empty(self, packages: dict[str, Any]) -> bool:
            return not packages["model"]

    for name in ("flgo", "flgo.utils", "flgo.algorithm"):
        put(sys.modules, name, ModuleType(name))
    put(sys.modules, "flgo.algorithm.asyncbase", SimpleNamespace(AsyncServer=AsyncServer))
    put(sys.modules, "flgo.algorithm.fedbase", SimpleNamespace(BasicClient=object))
    for name in ("flgo.utils.fmodule", "flgo.algorithm.fedbuff"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name.replace('.', '/')}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        put(sys.modules, name, module)
        spec.loader.exec_module(module)
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)
    sys.modules["flgo"].utils = sys.modules["flgo.utils"]  # type: ignore[attr-defined]
    return sys.modules["flgo.algorithm.fedbuff"]


@pytest.mark.long
def test_flgos_own_fedbuff_makes_the_models_that_ours_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package from PyPI, given the arrivals of one of our runs one at a time. Its buffer is a share of the clients:
    4 of 8."""
    import torch

    flgo = flgo_modules(tmp_path, monkeypatch.setitem)
    fmodule = sys.modules["flgo.utils.fmodule"]

    class Model(fmodule.FModule):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def model(vector: Any) -> Any:
        made = Model()
        made.w.data = torch.tensor(vector)
        return made

    world = quadratic(8, 1)
    outcome = drive(FedBuff(buffer_size=4), world, seed=1, in_flight=6, horizon=400.0)
    server = flgo.Server()
    server.initialize()
    server.buffer_ratio, server.num_clients = 0.5, 8
    server.model, server.current_round = model(np.array(world.start)), 0
    flushed = False
    for event in outcome.events:
        if isinstance(event, Arrived):
            start, end, _ = outcome.trained[event.update.order.sequence]
            update = model(end) - model(np.array(start))
            update._round = event.update.base_version
            flushed = server.package_handler({"model": [update]})
        elif isinstance(event, Decided):
            assert flushed
            server.current_round += 1
            np.testing.assert_allclose(server.model.w.detach().numpy(), outcome.models[event.version], rtol=1e-12)
    assert server.current_round == len(outcome.steps) > 20
    assert max(update.staleness for step in outcome.steps for update in step.used) > 2
