"""Whole runs, in one process: what the record says fits what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs import registry
from tiny import TINY, lines, run, settings


def told(folder: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in lines(folder) if line["event"] == event]


def test_afbs_trains_exactly_what_it_uses(tmp_path: Path) -> None:
    result = run(tmp_path)
    facts = result.record.result
    assert facts is not None
    steps = told(result.folder, "step")
    used = [order for step in steps for order in step["used"]["order"]]
    dropped = [order for step in steps for order in step["dropped"]["order"]]
    assert facts["jobs"]["trained"] == facts["updates"]["used"] == len(used) == len(set(used))
    assert facts["jobs"]["skipped"] == facts["updates"]["dropped"] == len(dropped) > 0
    assert not set(used) & set(dropped)
    size = 4 * len(result.params)
    assert facts["upload_bytes"] == size * len(used)
    assert facts["skipped_upload_bytes"] == size * len(dropped)
    counts = dict(zip(result.record.clients.id, result.record.clients.examples, strict=True))
    epochs = TINY["training"]["epochs"]
    samples = sum(epochs * counts[client] for step in steps for client in step["used"]["client"])
    assert facts["jobs"]["samples"] == samples


@pytest.mark.parametrize("algorithm", registry.names("algorithm"))
def test_every_algorithm_learns(algorithm: str, tmp_path: Path) -> None:
    # It gives 20 to 100 steps a job: where two are usual, that takes very long.
    steps = {"training.steps": 50} if algorithm == "fedcompass" else {}
    result = run(tmp_path, algorithm={"name": algorithm}, **{"run.virtual_days": 0.5}, **steps)
    assert result.best > result.history.accuracy.iloc[0] + 0.15
    assert np.isfinite(result.params).all()


def test_a_constant_number_of_clients_is_under_way(tmp_path: Path) -> None:
    result = run(tmp_path, algorithm={"name": "fedasync"})
    under_way = 0
    for line in lines(result.folder):
        under_way += {"dispatch": 1, "arrival": -1}.get(line["event"], 0)
        assert under_way <= TINY["run"]["in_flight"]
    assert under_way == TINY["run"]["in_flight"]


def test_evaluations_stand_on_the_grid_and_not_after_every_step(tmp_path: Path) -> None:
    result = run(tmp_path)
    horizon = 0.15 * 86_400
    assert result.history.time.tolist() == [0.0, *(round(horizon * part / 4, 3) for part in (1, 2, 3, 4))]
    assert result.record.result is not None
    assert result.record.result["versions"] > len(result.history)


def test_the_summary_is_what_the_events_say(tmp_path: Path) -> None:
    result = run(tmp_path)
    facts = result.record.result
    assert facts is not None
    evals = told(result.folder, "eval")
    assert facts["best"] == max(line["accuracy"] for line in evals)
    assert facts["final"] == evals[-1]["accuracy"]
    reached = [line["time"] for line in evals if line["accuracy"] >= 0.5]
    assert facts["time_to_target"] == (reached[0] if reached else None)
    assert facts["versions"] == len(told(result.folder, "step"))
    assert facts["updates"]["arrived"] == len(told(result.folder, "arrival"))
    assert facts["evaluations"] == len({line["version"] for line in evals})
    confusion = np.array(told(result.folder, "end")[-1]["confusion"])
    assert np.trace(confusion) / confusion.sum() == evals[-1]["accuracy"]


def test_the_folder_is_complete_and_its_configuration_runs_again_to_the_same_bytes(tmp_path: Path) -> None:
    result = run(tmp_path)
    names = {path.name for path in result.folder.iterdir()}
    assert names >= {"config.toml", "meta.json", "events.jsonl", "result.json", "model.safetensors", "checkpoints"}
    again = afbs.run(result.folder / "config.toml", folder=tmp_path / "again")
    assert again.params.tobytes() == result.params.tobytes()
    assert lines(again.folder) == lines(result.folder)


def test_label_counts_are_written_only_if_asked_for(tmp_path: Path) -> None:
    meta = json.loads((run(tmp_path).folder / "meta.json").read_text())
    assert "labels" not in meta
    asked = afbs.run({**settings(), "record": {"labels": True}}, folder=tmp_path / "asked")
    labels = json.loads((asked.folder / "meta.json").read_text())["labels"]
    assert len(labels) == 20
    assert all(abs(sum(row) - 1) < 0.01 for row in labels)


def test_no_client_is_asked_about_labels_where_no_algorithm_needs_clusters(tmp_path: Path) -> None:
    meta = json.loads((run(tmp_path, algorithm="fedbuff").folder / "meta.json").read_text())
    assert meta["clusters"] is None
    assert meta["clients"]["cluster"] is None


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first = run(tmp_path)
    seed: dict[str, Any] = {"run.seed": 2}
    second = afbs.run(TINY, folder=tmp_path / "second", **seed)
    assert first.params.tobytes() != second.params.tobytes()


def test_a_falling_learning_rate_can_end_the_run(tmp_path: Path) -> None:
    changes = {"run.stop_when_lr_below": 0.0999, "training.lr_decay": 0.9997}
    result = run(tmp_path, **changes)
    assert told(result.folder, "end")[-1]["reason"] == "learning rate"
    assert result.record.result is not None
    # 0.1 · 0.9997ⁿ is below 0.0999 from n = 4 on: 0.9997³ = 0.99910, 0.9997⁴ = 0.99880
    assert result.record.result["versions"] == 4
