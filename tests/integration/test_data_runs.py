"""Parts by their names in a configuration, up to a whole run on a user's own data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from afbs import registry
from afbs.config import load
from afbs.experiment import run
from afbs.population import populate

REQUIRED = {
    "trace": {"path": "trace.csv"},
    "observed": {"path": "presence.csv"},
    "npz": {"path": "a.npz"},
    "images": {"path": "a"},
    "text": {"path": "a.csv"},
}


@pytest.mark.parametrize("kind", ["data", "partition", "latency", "availability", "model"])
def test_every_part_can_be_configured_by_its_name(kind: str) -> None:
    for name in registry.names(kind):
        config = load({kind: {"name": name, **REQUIRED.get(name, {})}})
        assert config.tables[kind]["name"] == name


def test_natural_clients_of_a_users_own_arrays_can_be_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    features = rng.normal(size=(300, 5)) + 3.0 * labels[:, None]
    np.savez(tmp_path / "own.npz", train_x=features, train_y=labels, owners=rng.integers(0, 8, 300))
    tables = {
        "data": {"name": "npz", "path": str(tmp_path / "own.npz")},
        "partition": {"name": "natural"},
        "model": {"name": "mlp", "hidden": 8},
        "training": {"lr": 0.1, "epochs": 2, "batch_size": 16},
        "latency": {"name": "proportional", "per": "job"},
        "availability": {"name": "dropouts", "probability": 0.2},
        "algorithm": {"name": "fedbuff", "buffer_size": 2},
        "run": {"virtual_days": 0.5, "in_flight": 4},
        "executor": {"name": "inline"},
        "evaluation": {"points": 3},
    }
    population = populate(load(tables))
    assert len(population.clients) == 8
    assert sum(client.examples for client in population.clients) == len(population.dataset.train_y)
    result = run(tables, folder=tmp_path / "run")
    assert result.final > 0.8
