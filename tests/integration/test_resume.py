"""The same bits on any number of workers, through interruption and `kill -9`, for every algorithm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs import registry
from afbs.config import load
from afbs.data import fingerprint
from afbs.experiment.provenance import identity
from afbs.population import populate
from afbs.record.checkpoint import load_checkpoint

ALGORITHMS = registry.names("algorithm")
TINY: dict[str, Any] = {
    "data": {"name": "digits"},
    "model": {"name": "mlp"},
    "partition": {"clients": 30, "clusters": 2},
    "clusters": {"number": 2},
    "training": {"lr": 0.1},
    "evaluation": {"points": 8, "spacing": "linear"},
    "run": {"virtual_days": 0.4, "in_flight": 12},
    "executor": {"name": "inline"},
}


def digest(result: afbs.Result) -> str:
    assert result.record.result is not None
    return str(result.record.result["sha256"])


def lines(folder: Path) -> list[dict[str, object]]:
    """The record without what depends on the clock on the wall and on how the run was computed."""
    found = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    kept = [line for line in found if line["event"] not in ("checkpoint", "resume")]
    return [{key: value for key, value in line.items() if key != "wall"} for line in kept]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, afbs.Result]:
    """Each algorithm's run in one process."""
    runs = tmp_path_factory.mktemp("reference")
    return {name: afbs.run(TINY, runs=runs, algorithm={"name": name}) for name in ALGORITHMS}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_number_of_workers_ends_in_the_same_bytes(
    algorithm: str, workers: int, reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    executor = {"name": "processes", "workers": workers}
    result = afbs.run(TINY, runs=tmp_path, algorithm={"name": algorithm}, executor=executor)
    assert result.params.tobytes() == reference[algorithm].params.tobytes()
    assert lines(result.folder) == lines(reference[algorithm].folder)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_killed_with_signal_9_resumes_to_the_same_bytes(
    algorithm: str, reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    script = (
        "import afbs, json, sys; config, folder, name = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3];"
        "config |= {'executor': {'name': 'processes', 'workers': 2}};"
        "config['run'] |= {'checkpoint_seconds': 0.05};"
        "afbs.run(config, folder=folder, algorithm={'name': name})"
    )
    command = [sys.executable, "-c", script, json.dumps(TINY), str(folder), algorithm]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(folder.glob("checkpoints/*.safetensors")):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if (folder / "result.json").exists():
        pytest.skip("the run was over before it could be killed")
    result = afbs.resume(folder)
    assert result.params.tobytes() == reference[algorithm].params.tobytes()
    assert lines(folder) == lines(reference[algorithm].folder)


class StopAfter:
    """Raises what Ctrl-C raises, in the middle of the run."""

    def __init__(self, version: int):
        self.version = version

    def __call__(self, progress: object) -> None:
        if progress.version >= self.version:  # type: ignore[attr-defined]
            self.version = sys.maxsize
            raise KeyboardInterrupt


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_interrupted_run_is_saved_and_resumes_to_the_same_bytes(
    algorithm: str, reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match="afbs resume"):
        afbs.run(TINY, folder=folder, algorithm={"name": algorithm}, on_progress=StopAfter(3))
    config = load(folder / "config.toml")
    checkpoint, complaints = load_checkpoint(folder, identity(config, fingerprint(populate(config).dataset)))
    assert checkpoint is not None
    assert checkpoint.version >= 3
    assert not complaints
    result = afbs.resume(folder)
    assert result.params.tobytes() == reference[algorithm].params.tobytes()
    assert lines(folder) == [line for line in lines(reference[algorithm].folder) if line.get("reason") != "interrupted"]


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    settings = {**TINY["run"], "checkpoint_seconds": 0.0}
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, run=settings, on_progress=StopAfter(5))
    newest = max(folder.glob("checkpoints/*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(content)
    complaints: list[str] = []
    result = afbs.resume(folder, on_note=complaints.append)
    assert len(complaints) == 1
    assert newest.name in complaints[0]
    assert digest(result) == digest(reference["afbs"])


def test_a_file_in_the_place_of_the_checkpoints_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(5))
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").touch()
    before = (folder / "events.jsonl").read_bytes()
    with pytest.raises(afbs.UserError, match=r"checkpoints` is not a folder. Remove it"):
        afbs.resume(folder)
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_run_is_not_taken_up_with_other_data(tmp_path: Path) -> None:
    """One label of two hundred is another one: too little to see in any curve."""
    from afbs.experiment import Interrupted

    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(200, 4)).astype(np.float32), np.arange(200) % 3
    given = {**TINY, "data": (samples, labels), "clusters": {"number": 1}}
    with pytest.raises(Interrupted):
        afbs.run(given, folder=tmp_path / "run", on_progress=StopAfter(3))
    other = labels.copy()
    other[7] = (other[7] + 1) % 3
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    with pytest.raises(afbs.UserError, match=r"The data is not what the run in .* began with"):
        afbs.resume(tmp_path / "run", data=(samples, other))
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    assert afbs.resume(tmp_path / "run", data=(samples, labels)).done


def test_without_its_header_a_run_is_computed_again_and_ends_the_same(
    reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(5))
    (folder / "meta.json").unlink()
    assert digest(afbs.resume(folder)) == digest(reference["afbs"])
    assert lines(folder) == lines(reference["afbs"].folder)


def test_a_torn_checkpoint_is_passed_over_too(reference: dict[str, afbs.Result], tmp_path: Path) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(5))
    newest = max(folder.glob("checkpoints/*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:1000])
    assert digest(afbs.resume(folder)) == digest(reference["afbs"])


def test_a_worker_that_is_killed_is_replaced_and_changes_nothing(
    reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill_a_worker(progress: object) -> None:
        if not killed and progress.version >= 2:  # type: ignore[attr-defined]
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            killed.append(int(children[-1]))
            os.kill(killed[0], signal.SIGKILL)

    executor = {"name": "processes", "workers": 2}
    result = afbs.run(TINY, runs=tmp_path, executor=executor, on_progress=kill_a_worker)
    assert killed
    assert result.params.tobytes() == reference["afbs"].params.tobytes()


def test_a_run_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(3))
    faster: dict[str, Any] = {"training.lr": 0.2}
    with pytest.raises(afbs.UserError, match=r"`\[training\]` was changed after the run began"):
        afbs.resume(folder, **faster)
    elsewhere: dict[str, Any] = {"executor": {"name": "processes", "workers": 2}, "run.checkpoint_seconds": 1.0}
    assert afbs.resume(folder, **elsewhere).done


def test_a_run_whose_record_was_changed_is_begun_again_and_ends_the_same(
    reference: dict[str, afbs.Result], tmp_path: Path
) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(3))
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"event":"arrival"', b'"event":"arrivel"', 1))
    complaints: list[str] = []
    result = afbs.resume(folder, on_note=complaints.append)
    *passed_over, anew = complaints
    assert passed_over
    assert all(complaint.startswith("events.jsonl is not what it was") for complaint in passed_over)
    assert anew == "No checkpoint is left to go on from: the run begins anew."
    assert result.params.tobytes() == reference["afbs"].params.tobytes()
    assert lines(folder) == lines(reference["afbs"].folder)


def test_lost_checkpoints_only_cost_time(reference: dict[str, afbs.Result], tmp_path: Path) -> None:
    from afbs.experiment import Interrupted

    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(TINY, folder=folder, on_progress=StopAfter(3))
    shutil.rmtree(folder / "checkpoints")
    often: dict[str, Any] = {"run.checkpoint_seconds": 0.0}
    again = afbs.resume(folder, **often)
    assert digest(again) == digest(reference["afbs"])
