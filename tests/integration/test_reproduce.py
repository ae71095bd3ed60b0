"""`afbs reproduce` as its users meet it, with the paper's setting shrunk to seconds."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import afbs
from afbs.reproduce.spec import Spec
from rehearsal import shrunk
from tiny import command

PART = ("--dataset", "mnist", "--clusters", "1", "--methods", "afbs,fedavg", "--virtual-days", "0.2")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Spec, "tables", shrunk())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_table_has_the_published_figure_beside_ours(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "table4", *PART) == 0
    told = capsys.readouterr().out
    assert "16,130" in told
    assert "59,470" in told
    found = {row["method"]: row for row in rows(small / "results/table4-mnist-k1-afbs-fedavg-0.2d/mnist-k1.csv")}
    run = afbs.load(next((small / "sweeps/reproduce/cells").glob("mnist-k1-afbs-*")))
    reached = run.time_to(0.5)
    assert reached is not None
    assert float(found["afbs"]["paper"]) == 16130
    assert float(found["afbs"]["ours"]) == pytest.approx(reached)
    assert float(found["afbs"]["difference"]) == pytest.approx(100 * (reached / 16130 - 1), abs=0.01)


def test_tables_that_need_the_same_runs_do_not_run_them_twice(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "reproduce", "table2", *PART) == 0
    stamps = {path: path.stat().st_mtime_ns for path in Path("sweeps").rglob("result.json")}
    assert len(stamps) == 2
    assert command(monkeypatch, "reproduce", "table4", *PART) == 0
    assert {path: path.stat().st_mtime_ns for path in Path("sweeps").rglob("result.json")} == stamps


def test_what_has_not_been_run_says_so(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "table2", "--dataset", "sst2", "--clusters", "2", "--collect") == 0
    told = capsys.readouterr().out
    assert told.count("not run") == 7
    assert "7 of 7 runs have not ended yet." in told
    assert not Path("sweeps").exists()


def test_committed_results_alone_make_the_table_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "reproduce", "table2", *PART, "--folder", "gone") == 0
    before = files(Path("results"))
    assert command(monkeypatch, "reproduce", "table2", *PART, "--collect", "--folder", "elsewhere") == 0
    assert files(Path("results")) == before


def test_a_committed_configuration_does_its_run_again_to_the_bit(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "reproduce", "table2", *PART) == 0
    place = Path("results/cells/mnist-k1-afbs-0.2d-seed1")
    again = afbs.run(place / "config.toml", progress=False)
    committed = json.loads((place / "cell.json").read_text())
    assert (again.record.result or {})["sha256"] == committed["sha256"]
    assert again.best_accuracy == committed["best"]


def test_a_run_that_froze_says_when(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def freezing(spec: Spec) -> dict[str, object]:
        real = dict(shrunk()(spec))
        return {
            **real,
            "training": {**real["training"], "lr_decay": 0.5},
            "run": {**real["run"], "stop_when_lr_below": 0.01},
        }

    monkeypatch.setattr(Spec, "tables", freezing)
    options = ("--dataset", "mnist", "--clusters", "1", "--methods", "fedasync", "--virtual-days", "0.5")
    assert command(monkeypatch, "reproduce", "table2", *options) == 0
    found = rows(small / "results/table2-mnist-k1-fedasync-0.5d/mnist-k1.csv")
    assert found[0]["remark"].startswith("0.5 of 20 days; ended at day 0.0, learning rate below 1 %")


def test_ablations_are_told_with_paired_tests(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--clusters", "3", "--methods", "afbs,fedbuff", "--seeds", "1,2", "--virtual-days", "0.1")
    assert command(monkeypatch, "reproduce", "ablations", *options) == 0
    place = next(Path("results").glob("ablations-*"))
    step = {row["arm"]: row for row in rows(place / "step-k3.csv")}
    assert len(step) == 7
    assert float(step["AFBS"]["difference"]) == pytest.approx(
        float(step["AFBS"]["final"]) - float(step["FedBuff"]["final"]), abs=2e-6
    )
    assert float(step["AFBS"]["difference"]) == -float(step["FedBuff"]["difference"])


def test_tuning_never_looks_at_the_test_set_and_takes_the_best(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--clusters", "1", "--methods", "fedavg", "--seeds", "1,2", "--virtual-days", "0.1")
    monkeypatch.setattr("afbs.reproduce.plans.fair._TRIAL_DAYS", 0.1)
    assert command(monkeypatch, "reproduce", "fair", *options) == 0
    place = next(Path("results").glob("fair-*"))
    trials = rows(place / "trials-k1.csv")
    best = max(trials, key=lambda row: float(row["validation"]))
    assert len(trials) == 9
    compared = [path for path in Path("results/cells").iterdir() if "validation" not in path.name]
    tried = [path for path in Path("results/cells").iterdir() if "validation" in path.name]
    assert len(compared) == 2
    assert len(tried) == 9
    for path in compared:
        settings = tomllib.loads((path / "config.toml").read_text())
        assert settings["training"]["lr"] == float(best["lr"])
        assert settings["algorithm"]["server_lr"] == float(best["value"])
        assert settings["evaluation"]["validation"] == 0


def test_wrong_words_are_answered_with_the_nearest_right_ones(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, answer in {
        ("tabel2",): "there is no 'tabel2'; did you mean 'table2'?",
        ("table2", "--dataset", "minst"): "there is no 'minst'; did you mean 'mnist'?",
        ("table2", "--methods", "fedbuf"): "there is no 'fedbuf'; did you mean 'fedbuff'?",
        ("table2", "--clusters", "one"): "`--clusters` must be whole numbers with commas between, got 'one'.",
    }.items():
        assert command(monkeypatch, "reproduce", *words) == 2
        assert answer in " ".join(capsys.readouterr().err.split())


def test_killed_at_any_moment_it_ends_in_the_same_files(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "rehearsal.py"
    options = ["table4", "--dataset", "mnist", "--clusters", "1", "--methods", "afbs,fedbuff", "--virtual-days", "0.4"]

    def begin(folder: Path) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        return subprocess.Popen([sys.executable, script, *options], cwd=folder, stdout=subprocess.DEVNULL)

    assert begin(tmp_path / "whole").wait() == 0
    process = begin(tmp_path / "killed")
    events = tmp_path / "killed/sweeps/reproduce/cells"
    while not any(path.stat().st_size > 20_000 for path in events.glob("*/events.jsonl")):
        time.sleep(0.02)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list(tmp_path.glob("killed/results/*"))
    assert begin(tmp_path / "killed").wait() == 0
    assert files(tmp_path / "killed/results") == files(tmp_path / "whole/results")
