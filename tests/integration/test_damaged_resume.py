"""A run folder that was damaged in any way is refused with a sentence, or resumed to the very same model and record."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import afbs
import tiny
from damage import damage

QUICK, LONG = 60, 1500


class StopAfter:
    def __init__(self, version: int):
        self.version = version

    def __call__(self, progress: Any) -> None:
        if progress.version >= self.version:
            raise KeyboardInterrupt


def interrupted(folder: Path, **overrides: Any) -> Path:
    settings: dict[str, Any] = {"run.checkpoint_seconds": 0.0, **overrides}
    with pytest.raises(afbs.Interrupted):
        afbs.run(tiny.TINY, folder=folder, progress=False, on_progress=StopAfter(8), **settings)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, afbs.Result]:
    """One that was interrupted, one of another seed, and what the first would have come to."""
    place = tmp_path_factory.mktemp("runs")
    whole = afbs.run(tiny.TINY, folder=place / "whole", progress=False)
    return interrupted(place / "one"), interrupted(place / "two", **{"run.seed": 2}), whole


def tried(seed: int, runs: tuple[Path, Path, afbs.Result], place: Path) -> str:
    """What became of it: `refused` or `same`; anything else is a failure."""
    folder = place / f"case-{seed}"
    shutil.copytree(runs[0], folder)
    what = damage(folder, runs[1], random.Random(seed))
    # Every checkpoint waits for the disk: most cases do without, and some write one after every step.
    seconds = 60.0 if seed % 4 else 0.0
    try:
        result = afbs.resume(folder, progress=False, run={"checkpoint_seconds": seconds})
        outcome = "refused"
        if result.done:
            assert result.params.tobytes() == runs[2].params.tobytes(), what
            assert tiny.lines(folder) == tiny.lines(runs[2].folder), what
            outcome = "same"
    except (afbs.UserError, afbs.RunError):
        outcome = "refused"
    except Exception as error:
        raise AssertionError(f"case {seed}: {what}") from error
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def test_a_damaged_run_is_refused_or_ends_in_the_same_model(
    runs: tuple[Path, Path, afbs.Result], tmp_path: Path
) -> None:
    outcomes = [tried(seed, runs, tmp_path) for seed in range(QUICK)]
    assert set(outcomes) == {"refused", "same"}


@pytest.mark.long
def test_a_damaged_run_is_refused_or_ends_in_the_same_model_many_times(
    runs: tuple[Path, Path, afbs.Result], tmp_path: Path
) -> None:
    for seed in range(QUICK, LONG):
        tried(seed, runs, tmp_path)


def test_a_record_whose_unsealed_lines_were_moved_is_not_cut_in_the_middle_of_a_line(
    runs: tuple[Path, Path, afbs.Result], tmp_path: Path
) -> None:
    """Lines about checkpoints carry wall times and are not sealed; another in their place may be longer."""
    folder = tmp_path / "run"
    shutil.copytree(runs[0], folder)
    record = folder / "events.jsonl"
    *written, end = record.read_bytes().splitlines(keepends=True)
    step = max(place for place, line in enumerate(written) if line.startswith(b'{"event":"step"'))
    assert all(line.startswith(b'{"event":"checkpoint"') for line in written[step + 1 :])
    record.write_bytes(b"".join([*written[: step + 1], end, *written[step + 1 :]]))
    result = afbs.resume(folder, progress=False)
    assert result.params.tobytes() == runs[2].params.tobytes()
    assert tiny.lines(folder) == tiny.lines(runs[2].folder)


@pytest.fixture
def unended(tmp_path: Path) -> Path:
    """A run with a checkpoint at every version that was killed before it wrote down its end."""
    folder = tiny.run(tmp_path, **{"run.checkpoint_seconds": 0.0}).folder
    (folder / "result.json").unlink()
    return folder


def test_a_run_whose_record_was_changed_before_every_checkpoint_begins_anew_and_says_so(unended: Path) -> None:
    events = unended / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"client":', b'"client": ', 1))
    notes: list[str] = []
    assert afbs.resume(unended, progress=False, on_note=notes.append).record.resumes == 0
    assert "it is passed over" in notes[0]
    assert "No checkpoint is left to go on from: the run begins anew." in notes


@pytest.mark.parametrize(
    ("part", "then", "begins", "ends"),
    [
        ("native", "another", "The run began with native kernels for another, and here are", "in the last bits."),
        (
            "blas",
            "openblas Pentium",
            "numpy multiplied with openblas Pentium",
            "CORETYPE=Pentium set it is the same.",
        ),
    ],
)
def test_a_resume_on_a_machine_that_rounds_otherwise_says_that_bits_may_differ(
    part: str, then: str, begins: str, ends: str, unended: Path
) -> None:
    meta = json.loads((unended / "meta.json").read_text())
    meta["machine"][part] = then
    (unended / "meta.json").write_text(json.dumps(meta))
    notes: list[str] = []
    afbs.resume(unended, progress=False, on_note=notes.append)
    (note,) = [note for note in notes if note.startswith(begins)]
    assert "its final model may differ in the last bits" in note
    assert note.endswith(ends)


def test_a_resume_takes_settings_that_decide_nothing_and_no_others(
    unended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiny.command(monkeypatch, "resume", unended, "--set", "training.lr=0.5") == 2
    assert "Only `[executor]`, `run.device` and `run.checkpoint_seconds` may change." in capsys.readouterr().err
    several = ("--set", "executor.name=processes", "--set", "executor.workers=1", "--set", "run.checkpoint_seconds=5")
    assert tiny.command(monkeypatch, "resume", unended, *several) == 0
