"""Real clients over a transport of one's own, as the example has them, through a kill."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import afbs
import tiny
from afbs.interfaces import Connection, Scene, Transport
from afbs.transports.simulated import VirtualTime
from afbs.types import UserError

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_fleet.py"


def steps(folder: Path) -> int:
    try:
        return (folder / "events.jsonl").read_text().count('"event":"step"')
    except FileNotFoundError:
        return 0


def test_a_fleet_of_threads_is_served_killed_and_served_to_the_end(tmp_path: Path) -> None:
    folder, command = tmp_path / "runs/threads", [sys.executable, str(EXAMPLE)]
    server = subprocess.Popen(command, cwd=tmp_path)
    while steps(folder) < 5 and server.poll() is None:
        time.sleep(0.01)
    server.kill()
    server.wait()
    assert 5 <= steps(folder) < 60
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    result = afbs.load(folder)
    assert result.record.result is not None
    assert result.record.result["versions"] == 60
    assert result.final > 0.8
    assert "after 60 steps" in again.stdout


class Wall(VirtualTime):  # type: ignore[misc]
    """Says that it keeps real time."""

    ahead = False


@dataclass(frozen=True)
class OnTheWall(Transport):
    def connect(self, scene: Scene) -> Connection:
        return Wall(*scene)


def test_a_simulation_in_real_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"OnTheWall' keeps real time .* `afbs.serve`"):
        tiny.run(tmp_path, transport=OnTheWall())
    assert not (tmp_path / "run").exists()


def test_a_folder_is_no_configuration_and_its_own_is_named(tmp_path: Path) -> None:
    folder = tiny.run(tmp_path).folder
    with pytest.raises(UserError, match=r"run is a folder, not a configuration. Its configuration is .*config.toml"):
        afbs.run(folder)
    with pytest.raises(UserError, match=r"is a folder, not a configuration\.$"):
        afbs.run(tmp_path)
