"""Models are tested on what each client holds out: who is worst off, and that nobody waits for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.clients.trainer import Trainer
from afbs.clients.workload import CLIENTS_AT_ONCE
from afbs.config import load
from afbs.core.fairness import deciles, fairness
from afbs.population import populate
from afbs.tasks import on_clients
from afbs.tasks.classification import Classification
from small import dataset, workload
from tiny import TINY

HELD = {**TINY, "evaluation": {**TINY["evaluation"], "held_out": 0.25, "held_out_points": 3}}


def test_the_worst_tenth_is_the_mean_of_those_who_are_worst_off() -> None:
    values = np.arange(1.0, 12.0)  # eleven clients: the worst tenth is two of them
    assert fairness(values, 1) == {"mean": 6.0, "worst": 1.5, "spread": pytest.approx(np.sqrt(10))}
    assert fairness(values, -1)["worst"] == 10.5, "where less is better the largest are the worst"
    assert fairness(np.array([0.5, np.nan]), 1) == {"mean": 0.5, "worst": 0.5, "spread": 0.0}
    assert np.isnan(fairness(np.array([np.nan]), 1)["mean"])
    assert deciles(values) == pytest.approx(np.arange(1.0, 12.0))
    assert deciles(np.array([np.nan])) == []


def test_every_client_is_tested_on_its_own_samples_alone() -> None:
    """Class 2 is taken for everything, so a client's accuracy is the share of class 2 in what it holds out."""
    held = [np.array([0, 1, 2]), np.empty(0, np.int64), *(np.array([i, i + 1]) for i in range(3, 3 + CLIENTS_AT_ONCE))]
    work = replace(workload(), held=held)
    trainer = Trainer(work)
    params = np.array([0] * 6 + [-50, -50, 50], np.float32)
    parts = [trainer.evaluate(0, params, part, local=True).totals for part in range(work.client_parts)]
    labels = dataset().train_y
    expected = [np.mean(labels[mine] == 2) for mine in held if len(mine)]
    assert np.concatenate([part["accuracy"] for part in parts]).tolist() == expected
    told = on_clients(Classification())(parts).details
    assert told["clients"] == len(held) - 1
    assert told["accuracy"]["mean"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert told["quantiles"][0] == min(expected)


def test_a_client_trains_on_what_it_does_not_hold_out() -> None:
    whole, part = (populate(load(tables)) for tables in (TINY, HELD))
    for all_of_it, train, held in zip(whole.split.indices, part.split.indices, part.held, strict=True):
        assert sorted([*train, *held]) == sorted(all_of_it)
        assert len(held) == min(len(all_of_it) - 1, max(1, round(0.25 * len(all_of_it))))
    assert [client.examples for client in part.clients] == [len(train) for train in part.split.indices]
    assert not whole.held


def lines(result: afbs.Result, event: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]
    return [line for line in read if line["event"] == event]


def test_nobody_waits_for_the_tests_of_clients_and_everybody_finds_the_same(tmp_path: Path) -> None:
    """However often clients are tested, by however many workers, the model and the other lines are the same."""
    runs = [
        afbs.run(HELD, folder=tmp_path / name, progress=False, **changes)
        for name, changes in (
            ("a", {}),
            ("b", {"evaluation.held_out_points": 1}),
            ("c", {"executor": {"name": "processes", "workers": 2}}),
        )
    ]
    assert len({run.params.tobytes() for run in runs}) == 1
    assert len({str([line["seal"] for line in lines(run, "step")][-1]) for run in (runs[0], runs[2])}) == 1
    assert [line["time"] for line in lines(runs[0], "clients")] == [0.0, 4320.0, 8640.0, 12960.0]
    assert [line["time"] for line in lines(runs[1], "clients")] == [0.0, 12960.0]
    last = lines(runs[0], "clients")[-1]
    assert (last["accuracy"], last["quantiles"]) == tuple(
        lines(runs[1], "clients")[-1][name] for name in ("accuracy", "quantiles")
    )
    table = runs[0].fairness
    assert list(table.columns) == ["time", "version", "clients", "mean", "worst", "spread"]
    assert table["mean"].iloc[-1] > table["mean"].iloc[0]
    assert (table.worst <= table["mean"]).all()


def test_a_run_that_was_interrupted_tests_its_clients_at_the_moments_that_remain(tmp_path: Path) -> None:
    whole = afbs.run(HELD, folder=tmp_path / "whole", progress=False)

    def stop(state: Any) -> None:
        if state.version >= 4:
            raise KeyboardInterrupt

    with pytest.raises(afbs.Interrupted):
        afbs.run(HELD, folder=tmp_path / "part", progress=False, on_progress=stop)
    again = afbs.resume(tmp_path / "part", progress=False)
    assert again.fairness.equals(whole.fairness)
    assert again.params.tobytes() == whole.params.tobytes()
