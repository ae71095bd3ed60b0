"""Runs with next to nothing in them, for every algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs import registry
from afbs.interfaces import Source
from afbs.types import Dataset


@dataclass(frozen=True)
class OneKind(Source):
    """Twenty samples of one class out of `classes`."""

    classes: int = 2

    def load(self) -> Dataset:
        x = np.random.default_rng(0).normal(size=(20, 1, 4, 4)).astype(np.float32)
        y = np.zeros(20, np.int64)
        return Dataset(x, y, x[:5], y[:5], self.classes)


NEXT_TO_NOTHING: dict[str, Any] = {
    "model": {"name": "mlp"},
    "partition": {"clients": 1, "clusters": 1},
    "clusters": {"number": 1},
    "run": {"virtual_days": 0.5, "in_flight": 1},
    "executor": {"name": "inline"},
    "evaluation": {"points": 2},
}


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("name", registry.names("algorithm"))
def test_one_client_with_one_class_can_train(name: str, classes: int, tmp_path: Path) -> None:
    small = {"buffer_size": 1} if hasattr(registry.find("algorithm", name), "buffer_size") else {}
    settings = {**NEXT_TO_NOTHING, "data": OneKind(classes), "algorithm": {"name": name, **small}}
    result = afbs.run({}, folder=tmp_path / "run", **settings)
    assert result.summary()["versions"] > 0
    assert result.summary()["final_accuracy"] == 1.0
    assert np.isfinite(result.params).all()
