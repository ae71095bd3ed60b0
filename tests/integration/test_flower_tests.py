"""Real clients test models on what they hold out: what they find, who is left out, and that nobody waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

import afbs
from afbs.apps.data import own
from afbs.config import load
from afbs.experiment.tracing import export_trace
from afbs.population import populate
from afbs.types import Dataset, UserError
from deployment import CLIENTS, Data, Deployment, tables
from small import Softmax

HELD: dict[str, Any] = {"held_out": 0.3, "held_out_points": 4}


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def deployed(place: Path, **more: Any) -> Deployment:
    return Deployment(place, tables("fedbuff", evaluation=HELD, **more))


def is_test(message: Message) -> bool:
    return message.metadata.message_type == "query.test"


def spoil(deployment: Deployment, client: int, how: Callable[[Message, Message], Iterable[Message]]) -> None:
    """This client's node does `how` to its answers to tests."""
    node = deployment.nodes.nodes[100 + client]
    node.spoils = lambda asked, reply: how(asked, reply) if is_test(asked) else [reply]


def test_what_real_clients_find_is_what_a_simulation_of_their_trace_finds(tmp_path: Path) -> None:
    """Eight versions and four points: at the start, and after every second version."""
    deployment = deployed(tmp_path)
    result = deployment.serve()
    told = deployment.recorded("clients")
    assert [line["version"] for line in told] == [0, 2, 4, 6, 8]
    assert [(line["clients"], line["absent"]) for line in told] == [(CLIENTS, 0)] * 5
    durations, presences = export_trace(deployment.folder, tmp_path / "fleet.csv")
    simulated = {**deployment.tables, "transport": {"name": "simulated"}}
    simulated["latency"] = {"name": "trace", "path": str(durations)}
    simulated["availability"] = {"name": "observed", "path": str(presences)}
    again = afbs.run(simulated, folder=tmp_path / "simulated", progress=False, **deployment.overrides)
    columns = ["version", "clients", "mean", "worst", "spread"]
    np.testing.assert_allclose(result.fairness[columns], again.fairness[columns], rtol=1e-5)
    assert afbs.verify(deployment.folder, **deployment.overrides).good


def test_a_client_trains_on_what_it_does_not_hold_out(tmp_path: Path) -> None:
    """Ten samples each: three are held out."""
    deployment = deployed(tmp_path)
    deployment.serve()
    assert {line["examples"] for line in deployment.recorded("arrival")} == {7}
    everybody = populate(load({**deployment.tables, "transport": {"name": "simulated"}}, deployment.overrides))
    for client in range(CLIENTS):
        local = own(None, deployment.config, client)
        np.testing.assert_array_equal(local.train, everybody.split.indices[client])
        np.testing.assert_array_equal(local.held, everybody.held[client])


def test_a_client_that_does_not_answer_a_test_is_left_out_and_counted_and_nobody_waits(tmp_path: Path) -> None:
    deployment = deployed(tmp_path, transport={"test_seconds": 40.0})
    spoil(deployment, 2, lambda asked, reply: [])
    deployment.serve()
    told = deployment.recorded("clients")
    assert [line["version"] for line in told] == [0, 2, 4, 6, 8]
    assert [(line["clients"], line["absent"]) for line in told] == [(CLIENTS - 1, 1)] * 5
    asked = [line for line in deployment.recorded("remark") if "it was not tested: no answer in time" in line["what"]]
    assert {line["client"] for line in asked} == {2}
    assert len(asked) < 5, "whoever let its time pass is not asked again until it answers"
    order = [line["event"] for line in deployment.recorded("step", "clients")]
    assert order.index("step") < order.index("clients"), "the first step was taken before the first test was over"
    assert any(line["client"] == 2 for line in deployment.recorded("arrival")), "it trains all the same"


def test_a_client_that_is_away_is_counted(tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    deployment.nodes.at(1.5, lambda: deployment.nodes.kill(103))
    deployment.serve()
    last = deployment.recorded("clients")[-1]
    assert (last["clients"], last["absent"]) == (CLIENTS - 1, 1)


def altered(reply: Message, **fields: Any) -> RecordDict:
    told: dict[str, Any] = {**reply.content["afbs"], **fields}
    return RecordDict({"afbs": ConfigRecord(told)})


BAD: dict[str, Callable[[Message, Message], Message]] = {
    "other names": lambda asked, reply: Message(altered(reply, told=["a", "b", "c"]), reply_to=asked),
    "no numbers": lambda asked, reply: Message(altered(reply, numbers=["x", "y", "z"]), reply_to=asked),
    "nothing": lambda asked, reply: Message(RecordDict(), reply_to=asked),
    "an error": lambda asked, reply: Message(Error(2, "boom"), reply_to=asked),
}


@pytest.mark.parametrize("bad", BAD)
def test_an_answer_that_is_not_what_was_agreed_is_left_out_and_says_why(bad: str, tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    spoil(deployment, 4, lambda asked, reply: [BAD[bad](asked, reply)])
    deployment.serve()
    told = deployment.recorded("clients")
    assert [(line["clients"], line["absent"]) for line in told] == [(CLIENTS - 1, 1)] * 5
    remarks = [line for line in deployment.recorded("remark") if "it was not tested" in line["what"]]
    assert [line["client"] for line in remarks] == [4] * 5


def test_a_client_with_one_sample_trains_on_it_and_is_not_tested(tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    config = deployment.config
    local = own((np.zeros((1, 2)), np.zeros(1, int)), config, 0)
    assert (len(local.train), len(local.held)) == (1, 0)


def test_the_share_of_a_node_is_that_of_a_simulation_where_labels_are_numbers() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 2)).astype(np.float32), rng.normal(size=60).astype(np.float32)
    data = Data(Dataset(x, y, x[:5], y[:5], 0))
    partition = {"name": "dirichlet", "alpha": 1.0, "min_examples": 1, "clients": CLIENTS}
    settings = {**tables("fedbuff"), "partition": partition, "transport": {"name": "simulated"}}
    config = load(settings, {"model": Softmax, "data": data, "task": "regression"})
    shares = [own(None, config, client).indices.tolist() for client in range(CLIENTS)]
    assert shares == [chosen.tolist() for chosen in populate(config).split.indices]


def test_setting_training_samples_aside_is_refused_where_clients_are_real(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", evaluation={"validation": 0.1}))
    with pytest.raises(UserError, match=r"`evaluation.validation` is for simulations"):
        deployment.serve()
    assert not deployment.folder.exists()


def test_a_fleet_whose_clients_do_not_test_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = deployed(tmp_path)
    monkeypatch.setattr("afbs.transports.flower.fleet.FlowerFleet.tests", False)
    with pytest.raises(UserError, match=r"`evaluation.held_out`: the clients of this fleet train, and do not test"):
        deployment.serve()
    assert not deployment.folder.exists()
