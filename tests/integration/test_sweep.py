"""Sweeps as their users meet them: real processes, killed and continued; tables, results, failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w

import afbs
from afbs.sweeps import Sweep, SweepInterrupted
from afbs.sweeps.results import markdown
from tiny import TINY, command, lines, settings, toml

GRID = {"grid": {"algorithm.name": ["afbs", "fedavg"], "run.seed": [1, 2]}, "baseline": "fedavg", "name": "two"}


def file(folder: Path, sweep: dict[str, Any], **changes: Any) -> Path:
    path = folder / "sweep.toml"
    path.write_text(tomli_w.dumps({**settings(**changes), "sweep": sweep}))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> afbs.Outcome:
    folder = tmp_path_factory.mktemp("whole")
    return afbs.sweep({**TINY, "sweep": GRID}, folder=folder / "sweep", results=folder / "results", progress=False)


def test_a_sweep_ends_in_a_row_a_cell_and_a_row_an_arm(whole: afbs.Outcome) -> None:
    assert whole.failed == {}
    assert whole.cells["name"].tolist() == ["afbs, seed 1", "afbs, seed 2", "fedavg, seed 1", "fedavg, seed 2"]
    assert whole.table.index.tolist() == ["afbs", "fedavg"]
    by_hand = whole.cells[whole.cells.arm == "afbs"].final_accuracy
    assert whole.table.loc["afbs", "final_accuracy"] == pytest.approx(sum(by_hand) / 2)
    other = whole.cells[whole.cells.arm == "fedavg"].final_accuracy
    assert whole.table.loc["afbs", "difference"] == pytest.approx(sum(by_hand) / 2 - sum(other) / 2)


def test_a_cell_is_the_same_to_the_bit_as_a_run_of_its_own(whole: afbs.Outcome, tmp_path: Path) -> None:
    alone = afbs.run(TINY, folder=tmp_path / "alone", run={"seed": 2}, progress=False)
    cell = next(result for result in whole.results.values() if result.record.name == "afbs, seed 2")
    assert cell.params.tobytes() == alone.params.tobytes()
    assert lines(cell.folder) == lines(alone.folder)


def test_the_same_sweep_again_runs_nothing(whole: afbs.Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("A cell was started.")

    monkeypatch.setattr("afbs.sweeps.local.LocalRunner.start", never)
    notes: list[str] = []
    again = afbs.sweep({**TINY, "sweep": GRID}, folder=whole.folder, progress=False, on_note=notes.append)
    pd.testing.assert_frame_equal(again.table, whole.table)
    assert notes == [f"4 of 4 cells were done before, in {whole.folder}."]


def test_results_are_small_and_say_everything(whole: afbs.Outcome) -> None:
    folder = whole.folder.parent / "results"
    table = pd.read_csv(folder / "table.csv", index_col="arm")
    assert table.loc["afbs", "final_accuracy"] == pytest.approx(whole.table.loc["afbs", "final_accuracy"])
    assert len((folder / "table.md").read_text().splitlines()) == 4
    curves = pd.read_csv(folder / "curves.csv")
    for key, result in whole.results.items():
        assert curves[curves.cell == key].accuracy.tolist() == pytest.approx(result.history.accuracy.tolist())
    facts = json.loads((folder / "sweep.json").read_text())
    digests = {key: cell["model_sha256"] for key, cell in facts["cells"].items()}
    assert digests == {key: (result.record.result or {})["sha256"] for key, result in whole.results.items()}
    assert not list(folder.rglob("*.safetensors"))
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 100_000


def test_results_forget_cells_that_the_sweep_has_no_more_and_touch_nothing_else(
    whole: afbs.Outcome, tmp_path: Path
) -> None:
    def written(seeds: list[int], name: str = "two") -> list[str]:
        grid = {"algorithm.name": ["afbs", "fedavg"], "run.seed": seeds}
        sweep = {**GRID, "grid": grid, "name": name}
        afbs.sweep({**TINY, "sweep": sweep}, folder=whole.folder, results=tmp_path, progress=False)
        return sorted(path.name for path in (tmp_path / "cells").iterdir())

    assert written([1, 2]) == sorted(whole.results)
    (tmp_path / "cells" / "mine").mkdir()
    kept = next(key for key in whole.results if key.startswith("fedavg-seed-2"))
    (tmp_path / "cells" / kept / "notes.txt").touch()
    first = [key for key in whole.results if "seed-1" in key]
    assert written([1]) == sorted([*first, "mine", kept])
    assert written([2], "another") == sorted([*whole.results, "mine"])


def test_a_report_is_made_of_results_alone(whole: afbs.Outcome, tmp_path: Path) -> None:
    from afbs.report import write
    from afbs.report.load import compared

    folder = whole.folder.parent / "results"
    page = write([folder], tmp_path / "report.html").read_text()
    assert "fedavg, seed 2" in page or "FedAvg" in page
    arms = {arm.algorithm: arm for arm in compared([folder]).arms}
    full = {arm.algorithm: arm for arm in compared([whole.folder]).arms}
    for algorithm in ("afbs", "fedavg"):
        assert arms[algorithm].seeds == 2
        for mine, other in zip(arms[algorithm].runs, full[algorithm].runs, strict=True):
            assert mine.full[1].tolist() == other.full[1].tolist()


def test_a_report_of_results_counts_as_the_runs_did_and_leaves_out_what_was_not_kept(
    whole: afbs.Outcome, tmp_path: Path
) -> None:
    from afbs.report import write
    from afbs.report.load import compared
    from afbs.report.tables import as_csv, summary

    folder = whole.folder.parent / "results"
    light, full = compared([folder]).arms, compared([whole.folder]).arms
    assert as_csv(summary(light, [])) == as_csv(summary(full, []))
    page = write([folder], tmp_path / "report.html").read_text()
    assert "Of 4 runs only the evaluations were kept" in page
    assert "is not the record" not in page
    for section in ("staleness", "buffer", "weights", "participation"):
        assert f'<section id="{section}">' not in page
        assert f'<section id="{section}">' in write([whole.folder], tmp_path / "full.html").read_text()


def test_results_are_shown_without_complaint_and_neither_verified_nor_traced(
    whole: afbs.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = next((whole.folder.parent / "results" / "cells").iterdir())
    assert command(monkeypatch, "show", cell) == 0
    assert "is not the record" not in capsys.readouterr().out
    assert command(monkeypatch, "verify", cell) == 2
    told = capsys.readouterr().err
    assert "only the evaluations were kept" in told
    assert f"afbs run {cell / 'config.toml'}" in told
    assert command(monkeypatch, "export", cell, "--trace", tmp_path / "trace.csv") == 2
    assert "has no trace" in capsys.readouterr().err


def test_figures_of_results_draw_what_was_kept(whole: afbs.Outcome, tmp_path: Path) -> None:
    from afbs.report.figures import figures

    names = {path.stem for path in figures([whole.folder.parent / "results"], tmp_path, "svg")}
    assert "cost" in names
    assert not names & {"staleness", "participation", "buffer", "weights", "accuracy-updates"}


def test_columns_of_ones_own_are_averaged_and_tested(whole: afbs.Outcome) -> None:
    columns = {"versions a day": lambda result: (result.summary()["versions"] or 0) / 0.15}
    cells = {"one": TINY, "two": settings(run__seed=2)}
    outcome = Sweep("mine", cells, columns=columns, metric="versions a day").run(
        whole.folder.parent / "own", progress=False
    )
    versions = outcome.cells["versions"].tolist()
    assert outcome.table.loc["one", "versions a day"] == pytest.approx(sum(versions) / 0.3)


def test_a_cell_that_fails_is_named_the_others_end_and_the_code_is_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, {"grid": {"run.in_flight": [8, 21]}})
    assert command(monkeypatch, "sweep", path, "-o", tmp_path / "sweep", "--results", tmp_path / "results") == 1
    said = capsys.readouterr()
    table = [line.split() for line in said.out.splitlines()]
    assert ["in_flight=8", "1"] in [words[:2] for words in table]
    assert ["in_flight=21", "failed", "–", "–", "–"] in table
    assert "Failed: in_flight=21: `run.in_flight` must be at most the number of clients (20), got 21." in said.err
    facts = json.loads((tmp_path / "results" / "sweep.json").read_text())
    assert sorted("failed" in cell for cell in facts["cells"].values()) == [False, True]
    assert f"1 of 2 cells failed; {tmp_path / 'sweep' / 'sweep.json'} says more." in said.err


def test_of_a_network_that_raises_the_exception_is_told_and_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exploding.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def __init__(self):\n"
        "        super().__init__(64, 10)\n"
        "    def forward(self, x):\n"
        "        if len(x) > 9:  # more than it is tried with before the run begins\n"
        "            raise ValueError('boom inside forward')\n"
        "        return super().forward(x.flatten(1))\n"
    )
    path = tmp_path / "sweep.toml"
    path.write_text(tomli_w.dumps({**TINY, "model": {"name": "exploding:Net"}, "sweep": {"grid": {"run.seed": [1]}}}))
    assert command(monkeypatch, "sweep", path, "-o", tmp_path / "sweep") == 1
    said = capsys.readouterr().err
    assert "Failed: seed 1: ValueError: boom inside forward\nThis was in `task`: Classification.loss, of " in said
    (cell,) = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["cells"].values()
    assert cell["failed"].startswith("Traceback")


def test_of_a_process_that_dies_its_last_words_are_kept_and_no_warning_of_ours(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(
        "import os, sys\ndef net():\n    print('last words', file=sys.stderr)\n    os._exit(3)\n"
    )
    path = tmp_path / "sweep.toml"
    path.write_text(tomli_w.dumps({**TINY, "model": {"name": "dying:net"}, "sweep": {"grid": {"run.seed": [1]}}}))
    outcome = afbs.sweep(path, folder=tmp_path / "sweep", progress=False)
    assert outcome.failed == {"seed 1": "last words\nIts process ended: exit code 3."}


def test_objects_of_ones_own_travel_to_their_cells(tmp_path: Path) -> None:
    from small import Softmax, dataset

    data = dataset(120)
    arrays = (data.train_x, data.train_y, data.test_x, data.test_y)
    outcome = Sweep("mine", {"own": {**TINY, "data": arrays, "model": Softmax}}).run(tmp_path, progress=False)
    assert outcome.failed == {}
    alone = afbs.run({**TINY, "data": arrays, "model": Softmax}, folder=tmp_path / "alone", progress=False)
    (cell,) = outcome.results.values()
    assert cell.params.tobytes() == alone.params.tobytes()


LONGER = {"run__virtual_days": 1.0, "training__epochs": 5, "run__checkpoint_seconds": 0.2}


def start(folder: Path, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "afbs", "sweep", str(path), "-o", "sweep"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until_something_was_saved(folder: Path, process: subprocess.Popen[str], more_than: int = 0) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if len(list((folder / "sweep").glob("cells/*/checkpoints/*.safetensors"))) > more_than:
            return
        time.sleep(0.01)


def test_a_sweep_killed_twice_ends_in_the_same_table_and_bytes(tmp_path: Path) -> None:
    path = file(tmp_path, GRID, **LONGER)
    for _ in range(2):
        process = start(tmp_path, path)
        wait_until_something_was_saved(tmp_path, process)
        assert process.poll() is None, process.communicate()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    continued = afbs.sweep(path, folder=tmp_path / "sweep", progress=False)
    assert continued.failed == {}
    assert sum(result.record.resumes for result in continued.results.values()) > 0
    uninterrupted = afbs.sweep(path, folder=tmp_path / "whole", progress=False)
    pd.testing.assert_frame_equal(continued.table, uninterrupted.table)
    assert continued.cells["sha256"].tolist() == uninterrupted.cells["sha256"].tolist()


def test_ctrl_c_saves_every_cell_and_the_same_command_continues(tmp_path: Path) -> None:
    path = file(tmp_path, GRID, **LONGER)
    process = start(tmp_path, path)
    wait_until_something_was_saved(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1].endswith("of 4 cells are done. The same command continues.")
    assert "Traceback" not in complaints
    outcome = afbs.sweep(path, folder=tmp_path / "sweep", progress=False)
    assert outcome.failed == {}
    assert len(outcome.cells) == 4


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Played: the first leaves the cell under way; the second comes before it has ended."""

    class Stubborn:
        closed = False
        cores = widest = 1

        def start(self, *_: object) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        def news(self, seconds: float) -> list[Any]:
            os.kill(os.getpid(), signal.SIGINT)
            return []

        def stop(self, key: str) -> None: ...

        def close(self) -> None:
            Stubborn.closed = True

    monkeypatch.setattr(Sweep, "_runner", lambda self: Stubborn())
    with pytest.raises(SweepInterrupted, match="0 of 1 cells are done"):
        Sweep("mine", {"a": TINY}).run(tmp_path, progress=False)
    assert Stubborn.closed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_mean_of_fewer_seeds_than_there_are_says_so(whole: afbs.Outcome) -> None:
    """One of two seeds of each arm has a number, as if only one had reached its target."""
    columns = {"odd": lambda result: 7.0 if result.summary()["seed"] == 1 else None}
    text = markdown(replace(whole, columns=columns))
    assert text.count("| 7.0000 (1/2) |") == 2


@pytest.mark.parametrize("place", ["sweep", "sweep/results", ".", "other", "sweep.toml", "sweep.toml/below"])
def test_results_among_runs_or_in_a_file_are_refused_before_anything_is_run(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("afbs.sweeps.local.LocalRunner.start", None)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sweep.lock").touch()
    path = file(tmp_path, GRID)
    assert command(monkeypatch, "sweep", path, "--folder", "sweep", "--results", place) == 2
    assert f"`--results` {place} " in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_a_report_that_is_a_folder_is_refused_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, GRID)
    plain = toml(tmp_path)
    for name, source, option in (("sweep", path, "--folder"), ("compare", plain, "--runs")):
        assert command(monkeypatch, name, source, option, tmp_path / name, "--report", tmp_path) == 2
        assert "it must be a file, as in report.html" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()
    assert not (tmp_path / "compare").exists()
