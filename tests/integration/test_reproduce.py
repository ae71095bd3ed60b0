"""`afbs reproduce` as its users meet it, with the paper's setting shrunk to seconds."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import afbs
from afbs.reproduce.spec import Spec
from afbs.sweeps import Cell
from rehearsal import shrunk
from tiny import command

PART = ("--dataset", "mnist", "--clusters", "1", "--methods", "afbs,fedavg", "--virtual-days", "0.2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one part of Table 4 was reproduced."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spec, "tables", shrunk())
        patch.chdir(folder)
        assert command(patch, "reproduce", "table4", *PART) == 0
    return folder


@pytest.fixture
def small(whole: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Spec, "tables", shrunk())
    monkeypatch.chdir(whole)
    return whole


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_table_has_the_published_figure_beside_ours(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "table4", *PART, "--collect") == 0
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
    assert found["afbs"]["remark"] == "0.2 of 20 days"


def test_how_far_a_step_goes_is_the_weight_of_what_it_used_times_its_clients_own_steps(small: Path) -> None:
    """Worked out anew from the lines of the record: an epoch has a step for every 64 samples or part of them."""
    (folder,) = (small / "sweeps/reproduce/cells").glob("mnist-k1-afbs-*")
    epochs = afbs.load(folder).record.config["training"]["epochs"]
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    used = [line["used"] for line in lines if line["event"] == "step"]
    ways = [
        weight * epochs * -(-number // 64)
        for step in used
        for weight, number in zip(step["weight"], step["examples"], strict=True)
    ]
    (committed,) = (small / "results/cells").glob("mnist-k1-afbs-*/cell.json")
    told = json.loads(committed.read_text())["heard"]
    assert told["local_steps_a_step"] == pytest.approx(sum(ways) / len(used), abs=1e-4)


def test_tables_that_need_the_same_runs_do_not_run_them_twice(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("A cell was started.")

    monkeypatch.setattr("afbs.sweeps.local.LocalRunner.start", never)
    assert command(monkeypatch, "reproduce", "table2", "fig-curves", *PART) == 0
    assert len(rows(small / "results/table2-mnist-k1-afbs-fedavg-0.2d/mnist-k1.csv")) == 2
    drawn = small / "results/fig-curves-mnist-k1-afbs-fedavg-0.2d"
    assert (drawn / "fig-curves.pdf").read_bytes().startswith(b"%PDF")


def test_a_committed_run_is_not_done_once_more_unless_its_settings_changed_or_somebody_asks(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    def refuse(_: object, cell: Cell, *__: object) -> None:
        started.append(cell.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("afbs.sweeps.local.LocalRunner.start", refuse)
    elsewhere = ("--folder", tmp_path / "nothing")
    assert command(monkeypatch, "reproduce", "table2", *PART, *elsewhere) == 0
    assert started == []
    assert "2 of 2 runs are in results already." in capsys.readouterr().out
    command(monkeypatch, "reproduce", "table2", *PART, *elsewhere, "--again")
    assert started == ["mnist-k1-afbs-0.2d-seed1"]
    written = tmp_path / "results"
    shutil.copytree(small / "results", written)
    config = written / "cells/mnist-k1-fedavg-0.2d-seed1/config.toml"
    config.write_text(config.read_text().replace("lr = 0.1\n", "lr = 0.2\n"))
    command(monkeypatch, "reproduce", "table2", *PART, *elsewhere, "--results", written)
    assert started[1:] == ["mnist-k1-fedavg-0.2d-seed1"]


def test_what_has_not_been_run_says_so(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "table2", "--dataset", "sst2", "--clusters", "2", "--collect") == 0
    told = capsys.readouterr().out
    assert told.count("not run") == 7
    assert "7 of 7 runs have not ended yet." in told


def test_committed_results_alone_make_the_table_again(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = files(Path("results/table4-mnist-k1-afbs-fedavg-0.2d"))
    options = ("--collect", "--folder", tmp_path / "nothing")
    assert command(monkeypatch, "reproduce", "table4", *PART, *options) == 0
    assert files(Path("results/table4-mnist-k1-afbs-fedavg-0.2d")) == before
    assert not (tmp_path / "nothing").exists()


def test_a_committed_configuration_does_its_run_again_to_the_bit(small: Path, tmp_path: Path) -> None:
    place = Path("results/cells/mnist-k1-afbs-0.2d-seed1")
    inline = {"name": "inline"}
    again = afbs.run(place / "config.toml", folder=tmp_path / "again", executor=inline, progress=False)
    committed = json.loads((place / "cell.json").read_text())
    assert (again.record.result or {})["sha256"] == committed["sha256"]
    assert again.best == committed["best"]


def test_a_damaged_result_is_named(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "results/cells/mnist-k1-afbs-0.2d-seed1"
    place.mkdir(parents=True)
    for name, content in {"cell.json": "{", "curve.csv": "", "config.toml": ""}.items():
        (place / name).write_text(content)
    options = ("--collect", "--results", tmp_path / "results", "--folder", tmp_path / "nothing")
    assert command(monkeypatch, "reproduce", "table4", *PART, *options) == 2
    assert f"{place} is damaged" in capsys.readouterr().err.replace("\n", "")


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


def test_a_choice_that_nothing_fits_is_refused_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, answer in {
        ("table2", "--clusters", "7"): "`--clusters`: table2 has no 7; it has 1, 2, 3, 5.",
        ("table2", "--dataset", "sst2", "--clusters", "5"): "it has cifar10 with 1, cifar10 with 3,",
        ("fig-buffer", "--dataset", "mnist"): "`--dataset`: fig-buffer has no mnist; it has cifar10.",
        ("table3", "--methods", "fedavg"): "`--methods`: table3 has no fedavg; it has afbs.",
        ("fig-stale", "--methods", "afbs"): "`--methods`: fig-stale leaves no such choice.",
        ("table5", "--seeds", "2"): "`--seeds`: table5 leaves no such choice.",
        ("fig-participation", "--dataset", "mnist"): "`--dataset`: fig-participation leaves no such choice.",
        ("list", "table2"): "give it no other name",
    }.items():
        assert command(monkeypatch, "reproduce", *words, "--collect") == 2
        assert answer in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_of_everything_only_what_has_something_for_the_choice_is_collected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "reproduce", "all", "--dataset", "sst2", "--collect") == 0
    assert "Left out: `--dataset`: fig-buffer has no sst2; it has cifar10." in capsys.readouterr().out
    assert not (tmp_path / "results" / "fig-buffer-sst2").exists()
    assert (tmp_path / "results" / "table2-sst2").exists()


def test_what_has_not_been_measured_is_not_called_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "reproduce", "fig-cosine", "--collect") == 0
    assert "Nothing has been measured yet." in capsys.readouterr().out
    assert "| not measured yet |" in (tmp_path / "results" / "README.md").read_text()


def test_killed_and_begun_again_it_ends_in_the_same_files(small: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "rehearsal.py"
    options = [*PART[:5], "fedavg", "--virtual-days", "0.2"]

    def begin(folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, script, "table4", *options], cwd=folder, stdout=subprocess.DEVNULL)

    process = begin(tmp_path)
    while not list(tmp_path.glob("sweeps/reproduce/cells/*/meta.json")):
        time.sleep(0.02)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "results").exists()
    assert begin(tmp_path).wait() == 0
    name = "cells/mnist-k1-fedavg-0.2d-seed1"
    assert files(tmp_path / "results" / name) == files(small / "results" / name)
