"""A run can be handed to the trackers people already use; none of them is needed."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afbs.record.parsing import told
from afbs.report.trackers import export, scalars
from afbs.types import UserError
from synthetic import columns, write_small


@pytest.fixture
def run(tmp_path: Path) -> Path:
    step = {"version": 1, "time": 5.0, "used": columns((1, 0, 9), (2, 2, 9), weights=[0.5, 0.25]), "dropped": {}}
    folder = write_small(tmp_path / "run", [0.1, 0.6], steps=[step], config={"training": {"lr": 0.1}})
    (folder / "result.json").write_text('{"final": 0.6, "sha256": "x", "updates": {"used": 2}}')
    return folder


def test_an_evaluation_and_a_step_become_numbers() -> None:
    line = {
        "event": "eval",
        "version": 3,
        "accuracy": 0.5,
        "loss": None,
        "time": 9.0,
        "wall": 1.0,
        "per_class": [0.4, None],
    }
    assert scalars(told(line)) == {"eval/accuracy": 0.5, "eval/time": 9.0, "eval/wall": 1.0, "class/0": 0.4}
    used, dropped = columns((1, 0, 9), (2, 2, 9), weights=[0.5, 0.25]), columns((3, 7, 1))
    assert scalars(told({"event": "step", "version": 1, "time": 5.0, "used": used, "dropped": dropped})) == {
        "step/used": 2,
        "step/dropped": 1,
        "step/weight": 0.75,
        "step/time": 5.0,
        "step/staleness": 1.0,
    }
    assert scalars(told({"event": "resume", "version": 1, "wall": 0.0})) == {}


def test_tensorboard_reads_back_what_was_written(run: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'afbs[tensorboard]'")
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    assert export(run, "tensorboard") == 3
    events = accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    assert [(point.step, round(point.value, 6)) for point in events.Scalars("eval/accuracy")] == [(0, 0.1), (1, 0.6)]
    assert events.Scalars("step/weight")[0].value == 0.75
    assert round(events.Scalars("result/final")[0].value, 6) == 0.6
    assert "training.lr = 0.1" in events.Tensors("config")[0].tensor_proto.string_val[0].decode()


def test_mlflow_is_given_settings_metrics_and_an_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    fake = SimpleNamespace(
        set_tracking_uri=lambda address: said.append(("at", address)),
        start_run=lambda run_name: said.append(("start", run_name)),
        log_params=lambda params: said.append(("params", params["training.lr"])),
        log_metrics=lambda metrics, step=None: said.append((step, metrics)),
        end_run=lambda: said.append("end"),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    export(run, "mlflow", destination="file:elsewhere")
    assert said[:3] == [("at", "file:elsewhere"), ("start", "run"), ("params", "0.1")]
    assert (1, {"eval/accuracy": 0.6, "eval/loss": 0.4, "eval/time": 100.0, "eval/wall": 0.1}) in said
    assert said[-2:] == [(None, {"result/final": 0.6}), "end"]


def test_wandb_is_given_settings_numbers_and_an_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []
    ended: list[bool] = []
    summary: dict[str, float] = {}
    config: dict[str, str] = {}
    fake = SimpleNamespace(
        define_metric=lambda name, step_metric: None,
        config=config,
        log=logged.append,
        summary=summary,
        finish=lambda: ended.append(True),
    )
    opened: list[dict[str, Any]] = []

    def init(**settings: Any) -> SimpleNamespace:
        opened.append(settings)
        return fake

    package = SimpleNamespace(init=init)
    monkeypatch.setitem(sys.modules, "wandb", package)
    export(run, "wandb")
    assert (opened[0]["project"], opened[0]["name"]) == ("afbs", "run")
    assert config["training.lr"] == "0.1"
    assert [line["version"] for line in logged] == [1, 0, 1]
    assert summary == {"final": 0.6}
    assert ended == [True]


def test_following_goes_on_until_the_run_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_small(tmp_path / "run", [0.1], ended=False)
    steps: list[int] = []
    fake = SimpleNamespace(
        start_run=lambda run_name: None,
        log_params=lambda params: None,
        log_metrics=lambda metrics, step=None: steps.append(step),
        end_run=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    later = [
        {"event": "eval", "version": 7, "time": 9.0, "accuracy": 0.5},
        {"event": "end", "reason": "horizon", "time": 10.0},
    ]

    def meanwhile(seconds: float) -> None:
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(later.pop(0)) + "\n")

    assert export(folder, "mlflow", follow=True, sleep=meanwhile) == 2
    assert steps == [0, 7]
    assert later == []


@pytest.mark.parametrize("to", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_with_its_remedy(run: Path, to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == to:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, to, None)
    with pytest.raises(UserError, match=rf"pip install 'afbs\[{to}\]'"):
        export(run, to)


def test_an_unknown_tracker_is_refused(run: Path) -> None:
    with pytest.raises(UserError, match="must be one of tensorboard, mlflow, wandb, got 'abacus'"):
        export(run, "abacus")
