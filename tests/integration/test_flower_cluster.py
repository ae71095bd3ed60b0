"""A real Flower cluster on the loopback address: TLS, node keys, SuperNodes that are killed, come late, or are unknown.

Its logs are kept in the test's folder, and nothing is left running.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.apps.keys import make_node_key
from cluster import Trial, recorded


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    try:
        yield made
    finally:
        made.close()
    assert not made.cluster.running()


def test_afbs_trains_to_the_end_while_a_node_is_killed_another_comes_late_and_a_stranger_is_refused(
    trial: Trial,
) -> None:
    """Two nodes are `afbs node`, the others plain SuperNodes."""
    trial.with_gate()
    cluster = trial.cluster
    cluster.up(2, trial.place / "runs", warm=True)
    cluster.register([2, 3])
    cluster.add_node(2)
    trial.submit("transport.upload=on_demand transport.clients=3 run.in_flight=3 run.versions=3")
    stranger = trial.place / "stranger.key"
    make_node_key(stranger)
    cluster.add_node(9, key=stranger)
    trial.wait("The stranger's refusal", lambda: "Connection attempt failed" in trial.log("node-9"))
    cluster.stop("node 9")
    trial.stepped(1)

    waiting = trial.shut_the_gate()
    taken = {order for line in trial.recorded("step") for part in ("used", "dropped") for order in line[part]["order"]}
    announced = {line["client"] for line in trial.recorded("arrival") if line["order"] not in taken}
    victim = min(waiting - announced)  # of the others a vector will be fetched
    cluster.stop(f"node {victim}", signal.SIGKILL)
    cluster.add_node(3)
    trial.wait("The late one", lambda: trial.recorded("joined"))
    trial.gate.unlink()
    trial.ended()

    result = afbs.load(trial.folder).record.result
    assert result is not None
    assert result["versions"] == 3
    assert (result["best"] or 0.0) > 0.2
    moved = result["traffic"]
    assert 0 < moved["uploaded"] + moved["spared"] <= moved["announced"]
    assert [line["client"] for line in trial.recorded("joined")] == [3]
    assert not [line for line in trial.recorded("step") if line["missing"] or line["rejected"]]
    assert set(json.loads((trial.folder / "fleet.json").read_text())["members"]) == {"0", "1", "2", "3"}
    assert afbs.verify(trial.folder).good


def finished(trial: Trial, versions: int) -> None:
    """It ended, and nothing that was acknowledged is missing."""
    trial.ended()
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
    for steps in (1, 3):
        trial.stepped(steps)
        trial.kill_server()
        trial.submit(settings)
    finished(trial, 6)
    assert len(trial.recorded("resume")) == 2


@pytest.mark.long
def test_after_the_superlink_died_the_run_goes_on_on_the_same_nodes(trial: Trial) -> None:
    settings = "transport.upload=eager transport.clients=3 run.versions=5"
    trial.cluster.up(3, trial.place / "runs")
    trial.submit(settings)
    trial.stepped(1)
    trial.cluster.stop("superlink", signal.SIGKILL)
    trial.wait("The ServerApp's end", lambda: not trial.servers())
    trial.cluster.start_link()
    trial.submit(settings)
    finished(trial, 5)


@pytest.mark.long
def test_nodes_that_are_stopped_and_started_again_are_the_same_clients(trial: Trial) -> None:
    trial.cluster.up(3, trial.place / "runs")
    trial.submit("transport.upload=on_demand transport.clients=3 run.versions=8")
    trial.stepped(1)
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


@pytest.mark.long
def test_what_was_deployed_is_simulated_from_its_trace_to_the_same_model(trial: Trial) -> None:
    """A node is killed, and one comes late; the simulation decides the same, and trains the same on the same data."""
    cluster = trial.cluster
    cluster.up(3, trial.place / "runs", warm=True)
    cluster.register([3])
    trial.submit("transport.upload=eager transport.clients=3 run.in_flight=3 run.versions=10")
    trial.stepped(1)
    cluster.stop("node 1", signal.SIGKILL)
    cluster.add_node(3, warm=True)
    finished(trial, 10)
    durations, presences = afbs.export_trace(trial.folder, trial.place / "fleet.csv")
    settings: dict[str, Any] = {
        "transport.name": "simulated",
        "latency": {"name": "trace", "path": str(durations)},
        "availability": {"name": "observed", "path": str(presences)},
    }
    again = afbs.run(trial.folder / "config.toml", folder=trial.place / "simulated", progress=False, **settings)
    taken = [
        [(line["used"]["order"], line["dropped"]["order"]) for line in recorded(folder) if line["event"] == "step"]
        for folder in (trial.folder, again.folder)
    ]
    assert taken[0] == taken[1]
    np.testing.assert_allclose(again.params, afbs.load(trial.folder).params, rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_ten_nodes_and_five_servers_are_killed_and_every_loss_is_explained(trial: Trial) -> None:
    cluster, rng = trial.cluster, random.Random(4)
    settings = (
        "transport.clients=4 partition.clients=4 run.versions=40 transport.upload=auto transport.fetch_seconds=60"
    )
    cluster.up(4, trial.place / "runs", warm=True)
    trial.submit(settings)
    for kill in range(10):
        trial.stepped(len(trial.recorded("step")) + 1)
        alive = [process.name for process in cluster.processes() if process.name != "superlink" and process.alive]
        victim = rng.choice(sorted(alive))
        cluster.stop(victim, signal.SIGKILL)
        if kill % 2:
            trial.stepped(len(trial.recorded("step")) + 1)
            trial.kill_server()
            trial.submit(settings)
        trial.revive(warm=True)
    trial.ended()

    record = trial.recorded()
    steps = [line for line in record if line["event"] == "step"]
    assert [line["version"] for line in steps] == list(range(1, 41))
    assert len(trial.recorded("resume")) == 5
    arrived = [line["order"] for line in record if line["event"] == "arrival"]
    taken = [order for line in steps for part in ("used", "dropped") for order in line[part]["order"]]
    missing = [order for line in steps for order in line["missing"]]
    lost = [line["order"] for line in record if line["event"] == "lost"]
    assert len(arrived) == len(set(arrived))
    assert len(taken) == len(set(taken))
    assert set(taken) | set(missing) <= set(arrived)
    rejected = [order for line in steps for order in line["rejected"]]
    assert len(set(arrived) - {*taken, *missing, *rejected}) < 2, "but for what waits in a buffer of two"
    explained = {line.get("order") for line in record if line["event"] == "remark"}
    assert {*lost, *missing} <= explained
    assert afbs.verify(trial.folder).good
