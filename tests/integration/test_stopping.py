"""Stopping, for real: signals to a real command, workers that end with their server, nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import afbs
import tiny

LONG = {"training__epochs": 100_000, "executor__name": "processes", "executor__workers": 2}


def started(folder: Path, temporary: Path, **changes: Any) -> subprocess.Popen[str]:
    """`afbs run` as a user starts it."""
    file = tiny.toml(folder, **changes)
    command = [sys.executable, "-m", "afbs", "run", str(file), "--folder", str(folder / "run")]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def children(process: int) -> list[int]:
    """The processes that this one has started."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def busy(folder: Path) -> bool:
    """Whether the run has begun and handed out its first jobs."""
    return (folder / "run" / "meta.json").exists()


def test_workers_end_with_their_server_in_the_middle_of_a_job(tmp_path: Path) -> None:
    process = started(tmp_path, tmp_path, **LONG)
    until(lambda: busy(tmp_path))
    time.sleep(0.5)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    until(lambda: not any(map(alive, workers)), 10.0)


def test_the_second_interrupt_ends_a_long_job_at_once_and_the_first_says_so(tmp_path: Path) -> None:
    process = started(tmp_path, tmp_path, **LONG)
    until(lambda: busy(tmp_path))
    time.sleep(0.5)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Once more ends at once" in out
    assert "afbs resume" in out
    until(lambda: not any(map(alive, workers)), 10.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_run_and_says_how_to_go_on(number: int, tmp_path: Path) -> None:
    changes = {"run__virtual_days": 20.0, "executor__name": "processes", "executor__workers": 1}
    process = started(tmp_path, tmp_path, **changes)
    until(lambda: busy(tmp_path) and b'"event":"step"' in (tmp_path / "run" / "events.jsonl").read_bytes())
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "afbs resume" in out
    assert list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))
    last = json.loads((tmp_path / "run" / "events.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("end", "interrupted")


def test_a_killed_run_leaves_nothing_among_the_temporary_files(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = started(tmp_path, temporary, **LONG)
    until(lambda: busy(tmp_path))
    time.sleep(0.3)
    process.kill()
    process.communicate()
    assert [path.name for path in temporary.iterdir() if path.name.startswith("afbs-")] == []


def test_more_workers_than_files_may_be_open_are_refused_with_a_number_that_would_do() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with pytest.raises(afbs.UserError, match=r"`executor.workers` = 40 .* At most 34 workers"):
            afbs.run(tiny.TINY, executor={"name": "processes", "workers": 40})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_everybody_dropping_out_and_returning_at_once_ends_and_can_be_stopped(tmp_path: Path) -> None:
    """Every job is lost and every client is back at once: nothing ever arrives. Each loss is a moment, so the run ends
    at its horizon; and while it goes on it can be stopped."""
    lossy = {"availability": {"name": "dropouts", "probability": 1.0, "away": 0.0}, "run.virtual_days": 0.02}
    result = tiny.run(tmp_path, **lossy)
    assert result.done
    told = [json.loads(line)["event"] for line in (result.folder / "events.jsonl").read_text().splitlines()]
    assert "arrival" not in told
    assert told.count("lost") > 5


def test_a_run_in_which_nothing_ever_arrives_is_stopped_by_a_signal(tmp_path: Path) -> None:
    changes = {"run__virtual_days": 2000.0, "run__in_flight": 8}
    file = tiny.toml(tmp_path, **changes)
    text = file.read_text() + '\n[availability]\nname = "dropouts"\nprobability = 1.0\naway = 0.0\n'
    file.write_text(text)
    command = [sys.executable, "-m", "afbs", "run", str(file), "--folder", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: busy(tmp_path))
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
