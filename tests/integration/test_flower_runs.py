"""Deployments in memory: every algorithm and every upload mode on real apps and real messages, in virtual time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Error, Message

import afbs
from afbs.experiment.result import Result
from afbs.experiment.tracing import export_trace
from afbs.record.lines import PLANNED
from afbs.record.seal import lines
from afbs.report.follow import Cursor, Follower
from afbs.types import RunError
from deployment import ALGORITHMS, CLIENTS, Deployment, tables
from grid import MemoryGrid, order_of

MODES = ("eager", "on_demand", "auto")
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails in these tests."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@every_algorithm
@pytest.mark.parametrize("upload", MODES)
def test_every_algorithm_trains_on_nodes_to_the_end(algorithm: str, upload: str, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables(algorithm, transport={"upload": upload}))
    result = deployment.serve()
    assert result.record.result is not None
    assert result.record.result["versions"] == 8
    np.testing.assert_array_equal(result.params, deployment.oracle())
    assert afbs.verify(deployment.folder, **deployment.overrides).good
    assert not list((deployment.folder / "inbox").glob("*"))


def eventful(place: Path, algorithm: str) -> Deployment:
    """A run in which one node fails at an order, one is killed at work and comes back, and one comes late."""
    settings = tables(algorithm, transport={"clients": CLIENTS - 1}, run={"versions": 20})
    deployment = Deployment(place, settings, clients=CLIENTS - 1)
    nodes = deployment.nodes
    nodes.at(20.0, lambda: nodes.add(deployment.node(CLIENTS - 1)))
    nodes.at(12.0, lambda: nodes.kill(102))
    nodes.at(100.0, lambda: nodes.start(102))

    def fails(asked: Message, reply: Message) -> list[Message]:
        broken = asked.metadata.message_type == "train" and order_of(asked) == 2
        return [Message(Error(2, "broken"), reply_to=asked)] if broken else [reply]

    for node in nodes.nodes.values():
        node.spoils = fails
    return deployment


def simulated(deployment: Deployment, **changes: Any) -> Result:
    """What a simulation makes of the trace of a deployment."""
    place = deployment.place
    durations, presences = export_trace(deployment.folder, place / "fleet.csv")
    tables = {**deployment.tables, "transport": {"name": "simulated"}, **changes}
    tables["latency"] = {"name": "trace", "path": str(durations)}
    tables["availability"] = {"name": "observed", "path": str(presences)}
    return afbs.run(tables, folder=place / "simulated", progress=False, **deployment.overrides)


def planned(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines(folder / "events.jsonl")]
    kept = [line for line in found if line["event"] in PLANNED]
    return [{name: value for name, value in line.items() if name not in ("wall", "seal")} for line in kept]


@every_algorithm
def test_a_deployment_simulated_from_its_trace_decides_the_same_and_reaches_the_same_model(
    algorithm: str, tmp_path: Path
) -> None:
    deployment = eventful(tmp_path, algorithm)
    result = deployment.serve()
    for kind in ("lost", "joined"):
        assert deployment.recorded(kind)
    again = simulated(deployment)
    assert planned(again.folder) == planned(deployment.folder)
    np.testing.assert_allclose(again.params, result.params, rtol=1e-6, atol=1e-7)
    assert afbs.verify(again.folder, **deployment.overrides).good


def test_another_algorithm_on_the_trace_says_what_would_have_happened(tmp_path: Path) -> None:
    """It has the same fleet: whoever is lost or late, and when, is as it was."""
    deployment = eventful(tmp_path, "afbs")
    deployment.serve()
    other = simulated(deployment, algorithm={"name": "fedavg"}, run={"seed": 3, "versions": 3, "in_flight": 4})
    assert other.record.result is not None
    assert other.record.result["versions"] == 3
    joined = [line["time"] for line in deployment.recorded("joined")]
    assert [line["time"] for line in planned(other.folder) if line["event"] == "joined"] == joined


def test_all_upload_modes_end_in_the_same_model_where_arrivals_are_the_same(tmp_path: Path) -> None:
    """Fetching takes time, so what arrives meanwhile may differ; with one order out at a time nothing can."""
    found = []
    for mode in MODES:
        settings = tables("fedbuff", transport={"upload": mode}, run={"in_flight": 3, "versions": 4})
        deployment = Deployment(tmp_path / mode, settings)
        (tmp_path / mode).mkdir()
        result = deployment.serve()
        found.append((result.params, [line["used"]["order"] for line in deployment.recorded("step")]))
    assert found[0][1] == found[1][1] == found[2][1]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][0], found[2][0])


def _afbs(upload: str) -> dict:  # type: ignore[type-arg]
    clusters = {"name": "plain_for_research", "number": 2}
    partition = {"name": "dirichlet", "alpha": 1.0, "min_examples": 1, "clients": 12}
    run = {"in_flight": 8, "versions": 12}
    algorithm = {"buffer_size": 6}
    transport = {"upload": upload, "clients": 12}
    return tables("afbs", clusters=clusters, partition=partition, run=run, algorithm=algorithm, transport=transport)


def test_on_demand_spares_what_is_dropped_and_eager_spares_nothing(tmp_path: Path) -> None:
    moved = {}
    for mode in ("eager", "on_demand"):
        (tmp_path / mode).mkdir()
        deployment = Deployment(tmp_path / mode, _afbs(mode), clients=12)
        result = deployment.serve()
        assert result.record.result is not None
        facts = result.record.result
        vector = 4 * len(result.params)
        arrived, used, dropped = (facts["updates"][name] for name in ("arrived", "used", "dropped"))
        traffic = facts["traffic"]
        assert traffic["announced"] in (vector * arrived, vector * (arrived + 1))  # one may come as the run ends
        assert dropped > 0
        if mode == "on_demand":
            assert traffic["uploaded"] == vector * used
            assert traffic["spared"] == vector * dropped
        else:
            assert traffic["uploaded"] == traffic["announced"]
            assert traffic["spared"] == 0
        assert facts["upload_bytes"] == traffic["uploaded"]
        assert deployment.recorded("fleet")[-1]["traffic"] == traffic
        moved[mode] = traffic["uploaded"]
    assert moved["on_demand"] < moved["eager"]


def test_nodes_keep_only_vectors_that_may_still_be_asked_for(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 20}))
    deployment.serve()
    held = [path for client in range(CLIENTS) for path in (tmp_path / f"node-{client}").glob("*/order-*.st")]
    assert len(held) <= 2 * CLIENTS


@pytest.mark.parametrize("mechanism", ["projection", "dp", "plain_for_research", "secure"])
def test_nodes_say_of_their_labels_what_the_mechanism_says_and_no_more(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", "a secret that all nodes share")
    clusters = {"name": mechanism, "number": 2}
    if mechanism == "projection":
        clusters["secret_env"] = "AFBS_TEST_SECRET"
    deployment = Deployment(tmp_path, tables("afbs", clusters=clusters))
    result = deployment.serve()
    assert result.record.result is not None
    assert result.record.result["versions"] == 8
    found = afbs.load(deployment.folder).record.meta["clusters"]  # type: ignore[typeddict-item]
    assert found["mechanism"] == mechanism
    assert found["refused"] == {}
    promises = list((tmp_path / "node-0" / "labels").glob("*.st"))
    assert len(promises) == 1
    assert afbs.verify(deployment.folder, **deployment.overrides).good


def test_a_node_without_the_shared_secret_is_placed_among_the_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", "a secret that all nodes share")
    clusters = {"name": "projection", "number": 2, "secret_env": "AFBS_TEST_SECRET"}
    deployment = Deployment(tmp_path, tables("afbs", clusters=clusters))
    node = deployment.nodes.nodes[102]
    app = node.app

    def forgetful(message, context):  # type: ignore[no-untyped-def]
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("AFBS_TEST_SECRET")
            return app(message, context)

    node.app = forgetful  # type: ignore[assignment]
    deployment.serve()
    found = afbs.load(deployment.folder).record.meta["clusters"]  # type: ignore[typeddict-item]
    assert list(found["refused"]) == ["2"]
    assert "AFBS_TEST_SECRET" in found["refused"]["2"]


def test_without_enough_nodes_it_says_who_came_and_who_was_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"clients": 9, "gather_seconds": 30.0}))
    other = Deployment(tmp_path / "other", tables("fedbuff", training={"lr": 0.5}))
    deployment.nodes.add(other.node(5, number=777))
    with pytest.raises(RunError, match="6 of 9 nodes came within 30 s") as caught:
        deployment.serve()
    assert "node 777: it has another task" in str(caught.value)


def test_a_run_that_has_ended_is_not_begun_again(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 2}))
    first = deployment.serve()
    again = deployment.serve(MemoryGrid(deployment.nodes))
    np.testing.assert_array_equal(first.params, again.params)
    assert "has ended" in deployment.said[-1]


def test_whoever_watches_sees_who_is_there_how_long_orders_take_and_what_was_moved(tmp_path: Path) -> None:
    deployment = eventful(tmp_path, "fedbuff")
    result = deployment.serve()
    follower = Follower(deployment.folder)
    follower.poll()
    now = follower.since(Cursor())[0]["now"]
    assert (now["progress"], now["goal"]) == (1.0, 20)
    fleet = now["fleet"]
    assert (fleet["clients"], fleet["known"]) == (CLIENTS, CLIENTS)
    assert 3.0 <= fleet["latency"][0] <= fleet["latency"][1] <= 28.5  # as long as `uneven` says, and one poll more
    assert result.record.result is not None
    moved = result.record.result["traffic"]
    assert all(fleet[name] == moved[name] for name in ("uploaded", "spared", "sent"))
    here = [line["clients"] for line in deployment.recorded("fleet")]
    assert min(here) == CLIENTS - 2, "the one that was killed was missed before the late one came"
