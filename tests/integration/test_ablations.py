"""The ready configurations that take AFBS apart, and an algorithm from outside the package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.experiment import Interrupted

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "ablations").glob("*.toml"))
TINY: dict[str, Any] = {
    "data": {"name": "digits"},
    "model": {"name": "mlp"},
    "partition.clients": 20,
    "executor": {"name": "inline"},
    "run.virtual_days": 0.2,
    "run.in_flight": 10,
    "algorithm.buffer_size": 5,
    "evaluation.points": 2,
}
CHANGES: dict[str, dict[str, Any]] = {
    "afbs": {},
    "afbs-decay-per-update": {"training.lr_decay_unit": "update"},
    "afbs-equal-volumes": {"partition.volume_sigma": 0.0},
    "afbs-fedbuff-weights": {"algorithm.weights": "each"},
    "afbs-random-drop": {"algorithm.drop": "random"},
    "afbs-survival-buffer": {"algorithm.survival": "buffer"},
    "afbs-survival-cluster": {"algorithm.survival": "cluster"},
    "afbs-survival-none": {"algorithm.survival": "none"},
    "afbs-without-clustering": {"algorithm.clustering": False},
    "fedbuff": {},
    "fedbuff-decay-per-update": {"training.lr_decay_unit": "update"},
    "fedbuff-equal-volumes": {"partition.volume_sigma": 0.0},
    "fedbuff-freshest": {"algorithm.staleness": "freshest"},
    "fedbuff-server-lr-2": {"algorithm.server_lr": 2.0},
    "fedbuff-server-lr-3": {"algorithm.server_lr": 3.0},
}


def settings(file: Path) -> dict[str, Any]:
    tables = tomllib.loads(file.read_text())
    return {f"{table}.{key}": value for table in tables if table != "name" for key, value in tables[table].items()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_ablation_changes_one_thing(file: Path) -> None:
    base = settings(EXAMPLES / "ablations" / f"{file.stem.split('-')[0]}.toml")
    assert settings(file) == {**base, **CHANGES[file.stem]}
    assert tomllib.loads(file.read_text())["name"] == file.stem


def test_the_two_algorithms_that_are_compared_differ_in_nothing_else() -> None:
    afbs_file, fedbuff_file = (settings(EXAMPLES / "ablations" / f"{name}.toml") for name in ("afbs", "fedbuff"))
    assert {**afbs_file, "algorithm.name": "fedbuff"} == fedbuff_file


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_ablation_runs(file: Path, tmp_path: Path) -> None:
    summary = afbs.run(file, folder=tmp_path / "run", **TINY).summary()
    assert summary["versions"] > 5
    assert summary["best_accuracy"] > 0.15
    assert (summary["dropped"] > 0) == file.stem.startswith("afbs")


def outlier_run(tmp_path: Path, name: str, **settings: Any) -> afbs.Result:
    tables = {key: value for key, value in TINY.items() if key != "algorithm.buffer_size"}
    from content_based import DropOutliers

    algorithm = DropOutliers(buffer_size=4)
    return afbs.run({"clusters": {"number": 2}}, folder=tmp_path / name, algorithm=algorithm, **{**tables, **settings})


@pytest.fixture
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.usefixtures("_examples")
def test_an_algorithm_from_outside_may_look_at_the_updates_before_it_decides(tmp_path: Path) -> None:
    result = outlier_run(tmp_path, "run")
    steps = result.summary()["versions"]
    assert steps > 5
    assert result.summary()["dropped"] == steps
    assert result.summary()["trained"] >= 4 * steps


@pytest.mark.usefixtures("_examples")
def test_looking_at_the_updates_gives_the_same_model_on_any_number_of_workers(tmp_path: Path) -> None:
    """Asking makes the plan wait, and changes nothing else."""
    alone = outlier_run(tmp_path, "inline")
    parallel = outlier_run(tmp_path, "two", **{"executor": {"name": "processes", "workers": 2}})
    assert (alone.folder / "model.safetensors").read_bytes() == (parallel.folder / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("_examples")
def test_a_run_that_looks_can_be_interrupted_and_taken_up(tmp_path: Path) -> None:
    from content_based import DropOutliers

    def stop(progress: Any) -> None:
        if progress.version >= 3:
            raise KeyboardInterrupt

    whole = outlier_run(tmp_path, "whole")
    with pytest.raises(Interrupted) as stopped:
        outlier_run(tmp_path, "half", on_progress=stop)
    taken_up = afbs.resume(stopped.value.folder, algorithm=DropOutliers(buffer_size=4))
    assert (taken_up.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("_examples")
def test_the_update_least_like_the_others_is_dropped() -> None:
    from content_based import similarities

    deltas = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.0], [0.0, 0.0], [np.nan, 1.0]], np.float32)
    found = similarities(deltas)
    assert sorted(range(5), key=found.__getitem__)[:3] == [2, 3, 4]
    assert found[0] > 0.9
