"""A real Flower cluster on the loopback address: TLS, node keys, SuperNodes that are killed, come late, or are unknown.

Its logs are kept in the test's folder, and nothing is left running.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import afbs
from afbs.apps.keys import make_node_key
from cluster import Trial


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    try:
        yield made
    finally:
        made.close()
    assert not made.cluster.stragglers()


@pytest.mark.long
def test_afbs_trains_to_the_end_while_a_node_is_killed_another_comes_late_and_a_stranger_is_refused(
    trial: Trial,
) -> None:
    trial.cluster.up(3, trial.place / "runs")
    trial.submit("transport.upload=on_demand transport.clients=3 run.versions=4 transport.patience=300")
    stranger = trial.place / "stranger.key"
    make_node_key(stranger)
    trial.cluster.add_node(9, key=stranger, register=False)
    trial.wait("The first step", lambda: trial.recorded("step"), 120)
    trial.cluster.stop("node 2", signal.SIGKILL)
    trial.cluster.add_node(3)
    trial.wait("The end", lambda: (trial.folder / "result.json").exists(), 180)

    result = afbs.load(trial.folder)
    assert result.record.result is not None
    assert result.record.result["versions"] == 4
    assert result.best > 0.3
    facts = result.record.result
    assert facts["traffic"]["uploaded"] + facts["traffic"]["spared"] <= facts["traffic"]["announced"]
    assert [line["client"] for line in trial.recorded("joined")] == [3]
    assert "9" not in json.loads((trial.folder / "fleet.json").read_text())["members"]
    assert "Connection attempt failed" in trial.log("node-9")
    assert afbs.verify(trial.folder).good


def finished(trial: Trial, versions: int) -> None:
    """It ended, and nothing that was acknowledged is missing."""
    trial.wait("The end", lambda: (trial.folder / "result.json").exists(), 600)
    result = afbs.load(trial.folder).record.result
    assert result is not None
    assert result["versions"] == versions
    arrived = [line["order"] for line in trial.recorded("arrival")]
    assert len(arrived) == len(set(arrived))
    assert not [order for line in trial.recorded("step") for order in (*line["rejected"], *line["missing"])]
    assert afbs.verify(trial.folder).good


@pytest.mark.long
@pytest.mark.parametrize("upload", ["eager", "on_demand"])
def test_a_server_that_is_killed_goes_on_in_a_new_run(upload: str, trial: Trial) -> None:
    settings = f"transport.upload={upload} transport.clients=3 run.versions=6"
    trial.cluster.up(3, trial.place / "runs")
    trial.submit(settings)

    def stepped(steps: int) -> bool:
        return len(trial.recorded("step")) >= steps

    for steps in (1, 3):
        trial.wait(f"Step {steps}", partial(stepped, steps), 300)
        trial.kill_server()
        trial.submit(settings)
    finished(trial, 6)
    assert len(trial.recorded("resume")) == 2


@pytest.mark.long
def test_after_the_superlink_died_the_run_goes_on_on_the_same_nodes(trial: Trial) -> None:
    settings = "transport.upload=eager transport.clients=3 run.versions=5"
    trial.cluster.up(3, trial.place / "runs")
    trial.submit(settings)
    trial.wait("The first step", lambda: trial.recorded("step"), 300)
    trial.cluster.stop("superlink", signal.SIGKILL)
    trial.wait("The ServerApp's end", lambda: not trial.servers(), 120)
    trial.cluster.restart_link()
    trial.submit(settings)
    finished(trial, 5)


@pytest.mark.long
def test_nodes_that_are_stopped_and_started_again_are_the_same_clients(trial: Trial) -> None:
    trial.cluster.up(3, trial.place / "runs")
    trial.submit("transport.upload=on_demand transport.clients=3 run.versions=8")
    trial.wait("The first step", lambda: trial.recorded("step"), 300)
    trial.cluster.stop("node 1")
    trial.cluster.add_node(1)
    finished(trial, 8)
    assert not trial.recorded("joined")
    assert any(line["client"] == 1 for line in trial.recorded("arrival"))


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["fedavg", "fedbuff", "feddyn"])
def test_other_algorithms_are_deployed_alike(algorithm: str, trial: Trial) -> None:
    trial.cluster.up(3, trial.place / "runs")
    trial.submit(f"algorithm.name={algorithm} transport.clients=3 run.versions=4 run.in_flight=3")
    finished(trial, 4)


@pytest.mark.long
@pytest.mark.parametrize("warm", [False, True])
def test_eight_nodes_with_and_without_the_helper(warm: bool, trial: Trial) -> None:
    trial.cluster.up(8, trial.place / "runs", warm=warm)
    trial.submit("transport.clients=8 partition.clients=8 run.in_flight=8 run.versions=8 algorithm.buffer_size=4")
    finished(trial, 8)
