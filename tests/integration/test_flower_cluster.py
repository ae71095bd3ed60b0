"""A real Flower cluster on the loopback address: TLS, node keys, SuperNodes that are killed, come late, or are unknown.

Its logs are kept in the test's folder when something fails, and nothing is left running.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import afbs
from afbs.apps.cluster import CONNECTION, Cluster
from afbs.apps.keys import make_node_key
from afbs.apps.project import write_project

SETTINGS = "training.epochs=1 training.lr=0.1 evaluation.every=2 transport.poll_seconds=0.2"


class Trial:
    """A fleet, an app, and runs of it."""

    def __init__(self, place: Path):
        self.place = place
        self.cluster = Cluster(place / "fleet")
        self.app = place / "trial"
        self.folder = place / "run"
        self.started: list[subprocess.Popen[bytes]] = []
        write_project(self.app)

    def submit(self, settings: str) -> subprocess.Popen[bytes]:
        """`flwr run`, which ends when the run does."""
        log = (self.place / "flwr-run.log").open("ab")
        command = ["flwr", "run", str(self.app), CONNECTION, "--stream"]
        command += ["--run-config", f'set="{SETTINGS} {settings}" folder="{self.folder}"']
        environment = self.cluster.environment()
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.started.append(process)
        return process

    def recorded(self, *kinds: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [line for line in map(json.loads, lines) if not kinds or line["event"] in kinds]

    def wait(self, what: str, until: Callable[[], object], seconds: float) -> None:
        limit = time.monotonic() + seconds
        while not until():
            if time.monotonic() > limit:
                raise AssertionError(f"{what} did not happen within {seconds:.0f} s; logs are in {self.place}.")
            time.sleep(0.3)

    def log(self, name: str) -> str:
        return (self.cluster.folder / "logs" / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.cluster.down()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    try:
        yield made
    finally:
        made.close()
    assert not [process for process in made.cluster.processes() if process.alive]


def test_afbs_trains_to_the_end_while_a_node_is_killed_another_comes_late_and_a_stranger_is_refused(
    trial: Trial,
) -> None:
    trial.cluster.up(3, trial.place / "runs")
    trial.submit("transport.upload=on_demand transport.clients=3 run.versions=6 transport.patience=300")
    stranger = trial.place / "stranger.key"
    make_node_key(stranger)
    trial.cluster.add_node(9, key=stranger, register=False)
    trial.wait("The first step", lambda: trial.recorded("step"), 120)
    trial.cluster.stop("node 2", signal.SIGKILL)
    trial.cluster.add_node(3)
    trial.wait("The end", lambda: (trial.folder / "result.json").exists(), 180)

    result = afbs.load(trial.folder)
    assert result.record.result is not None
    assert result.record.result["versions"] == 6
    assert result.best_accuracy > 0.3
    facts = result.record.result
    assert facts["traffic"]["uploaded"] + facts["traffic"]["spared"] <= facts["traffic"]["announced"]
    assert [line["client"] for line in trial.recorded("joined")] == [3]
    assert "9" not in json.loads((trial.folder / "fleet.json").read_text())["members"]
    assert not any(process.alive for process in trial.cluster.processes() if process.name == "node 9")
    assert afbs.verify(trial.folder).good
