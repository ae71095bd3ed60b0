"""A run that is not about accuracy: the record, the tables, the page and the sweep follow its metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import afbs
from afbs.report import write
from afbs.report.figures import figures
from afbs.report.follow import Cursor, Follower
from afbs.sweeps.results import grid
from tiny import TINY, command

NUMBERS = {
    **{table: value for table, value in TINY.items() if table != "evaluation"},
    "task": {"name": "regression", "shift": 4.5, "scale": 3.0, "unit": "digits"},
    "evaluation": {"points": 4, "spacing": "linear", "target": 2.5, "held_out": 0.2, "held_out_points": 2},
    "training": {"lr": 0.03, "epochs": 2},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> afbs.Result:
    return afbs.run(NUMBERS, folder=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_the_best_is_the_least_and_a_target_is_reached_from_above(result: afbs.Result) -> None:
    levels = result.history.rmse
    assert (result.best, result.final) == (levels.min(), levels.iloc[-1])
    reached = result.history[levels <= 2.5]
    assert result.time_to(2.5) == (reached.time.iloc[0] if len(reached) else None)
    assert result.time_to(float(levels.iloc[0])) == 0.0
    facts = json.loads((result.folder / "result.json").read_text())
    assert (facts["metric"], facts["best"], facts["target"]) == ("rmse", levels.min(), 2.5)
    assert list(result.summary())[3:6] == ["best_rmse", "final_rmse", "time_to_target"]


def test_the_page_speaks_of_its_metric_and_never_of_accuracy(result: afbs.Result, tmp_path: Path) -> None:
    page = write([result.folder], tmp_path / "page.html").read_text()
    words = page.partition('<script type="application/json"')[0]
    assert "accuracy" not in words.lower()
    for expected in ("Final RMSE", "Targets in digits", "lower for RMSE", "Across clients", "Time to 2.5 digits"):
        assert expected in words, expected
    assert 'id="classes"' not in words


def test_figures_are_named_after_the_metric(result: afbs.Result, tmp_path: Path) -> None:
    names = {path.stem for path in figures([result.folder], tmp_path, "svg")}
    assert {"rmse-time", "rmse-steps", "loss-time", "r2-time", "fairness"} <= names
    assert not [name for name in names if "accuracy" in name or name in ("classes", "confusion")]


def test_onlookers_are_told_what_is_measured(result: afbs.Result) -> None:
    follower = Follower(result.folder)
    follower.poll()
    message, _ = follower.since(Cursor())
    assert [metric["name"] for metric in message["now"]["metrics"]] == ["rmse", "loss", "mae", "r2"]
    assert message["evals"][-1][3] == result.final


def test_runs_about_different_things_are_not_compared(result: afbs.Result, tmp_path: Path) -> None:
    other = afbs.run(TINY, folder=tmp_path / "other", progress=False)
    said: list[str] = []
    page = write([result.folder, other.folder], tmp_path / "page.html", said.append).read_text()
    assert said == ["Left out: other is about accuracy, and the others are about RMSE."]
    assert "Final RMSE" in page
    with pytest.raises(afbs.UserError, match="its runs cannot be compared, 'a' about 'rmse' and 'b' about 'accuracy'"):
        afbs.Sweep("mixed", {"a": NUMBERS, "b": TINY})


def test_a_sweep_ranks_by_what_is_less(tmp_path: Path) -> None:
    cells: dict[str, Any] = {name: {**NUMBERS, "training": {"lr": lr}} for name, lr in (("slow", 1e-6), ("fast", 0.03))}
    outcome = afbs.Sweep("numbers", cells, baseline="slow").run(tmp_path / "sweep", progress=False)
    assert outcome.table["rank"].to_dict() == {"slow": 2.0, "fast": 1.0}
    assert outcome.table.loc["fast", "final_rmse"] < outcome.table.loc["slow", "final_rmse"]
    heading, _ = grid(outcome)
    assert "final RMSE, digits" in heading


def test_the_command_line_says_what_it_shows(
    result: afbs.Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert command(monkeypatch, "show", result.folder) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Of RMSE (digits); less is better.")
    assert "to 2.5" in shown


def test_a_row_of_numbers_is_predicted_from_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 4))
    y = np.stack([x[:, 0], x[:, 1] - x[:, 2]], axis=1)
    tables = {**NUMBERS, "task": {"name": "regression"}, "model": {"name": "mlp"}, "training": {"lr": 0.1}}
    tables = {**tables, "evaluation": {"points": 3, "target": 0.2}}
    result = afbs.run({key: value for key, value in tables.items() if key != "data"}, data=(x, y), runs=tmp_path)
    assert result.best < result.record.watched[0]
    assert afbs.model(result)(torch.zeros(5, 4)).shape == (5, 2)


def test_data_of_ones_own_are_called_by_their_class_and_not_by_where_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    given = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=200)
    tables = {table: value for table, value in NUMBERS.items() if table not in ("data", "evaluation")}
    result = afbs.run(tables, folder=tmp_path / "run", data=given, run={"virtual_days": 0.02})
    assert "<li>data Arrays</li>" in write([result.folder], tmp_path / "page.html").read_text()
