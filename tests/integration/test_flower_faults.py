"""What can go wrong in a deployment: each is one line in the record, and training goes on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

import afbs
from deployment import Deployment, tables, uneven
from grid import MemoryGrid, order_of


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def finished(deployment: Deployment, versions: int = 8) -> None:
    """It ran to its end, and what it decided is what its record says."""
    result = afbs.load(deployment.folder).record.result
    assert result is not None
    assert result["versions"] == versions
    assert afbs.verify(deployment.folder, **deployment.overrides).good
    np.testing.assert_array_equal(afbs.load(deployment.folder).params, deployment.oracle())


def remarks(deployment: Deployment, words: str) -> list[dict[str, Any]]:
    return [line for line in deployment.recorded("remark") if words in line["what"]]


def is_train(message: Message) -> bool:
    return message.metadata.message_type == "train"


def spoil(deployment: Deployment, orders: set[int], how: Any) -> None:
    """Every node does `how` to its replies to these orders."""

    def spoils(asked: Message, reply: Message) -> Iterable[Message]:
        return how(asked, reply) if is_train(asked) and order_of(asked) in orders else [reply]

    for node in deployment.nodes.nodes.values():
        node.spoils = spoils


@pytest.mark.parametrize(
    ("code", "words"), [(2, "its app raised an error"), (8, "its app was killed"), (99, "error 99")]
)
def test_an_error_reply_is_a_lost_order_with_its_reason(code: int, words: str, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    spoil(deployment, {2, 5}, lambda asked, reply: [Message(Error(code, "Traceback\n  boom"), reply_to=asked)])
    deployment.serve()
    finished(deployment)
    assert [line["order"] for line in deployment.recorded("lost")] == [2, 5]
    told = remarks(deployment, words)
    assert [line["order"] for line in told] == [2, 5]
    assert "(boom)" in told[0]["what"]


def test_a_client_that_fails_again_and_again_is_asked_less_often(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 20}))

    def spoils(asked: Message, reply: Message) -> Iterable[Message]:
        return [Message(Error(2, "broken"), reply_to=asked)] if is_train(asked) else [reply]

    deployment.nodes.nodes[103].spoils = spoils
    deployment.serve()
    finished(deployment, 20)
    lost = [line["time"] for line in deployment.recorded("lost")]
    assert len(lost) >= 3
    assert all(later - earlier > 30 for earlier, later in pairwise(lost[2:]))


def test_an_expired_message_is_lost_and_its_client_left_alone_until_it_answers(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    spoil(deployment, {1}, lambda asked, reply: [Message(Error(3, "expired"), reply_to=asked)])
    deployment.serve()
    finished(deployment)
    (line,) = remarks(deployment, "the message expired")
    assert line["order"] == 1


def test_a_second_reply_is_noted_and_counts_once(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    spoil(deployment, {3}, lambda asked, reply: [reply, reply])
    deployment.serve()
    finished(deployment)
    assert len(remarks(deployment, "or a second one")) == 1
    arrived = [line["order"] for line in deployment.recorded("arrival")]
    assert arrived.count(3) == 1


def test_a_reply_to_an_order_that_nobody_gave_is_noted(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))

    def stray(asked: Message, reply: Message) -> Iterable[Message]:
        other = Message(reply.content, reply_to=asked)
        other.metadata.__dict__["_reply_to_message_id"] = "never/1"
        return [other, reply]

    spoil(deployment, {4}, stray)
    deployment.serve()
    finished(deployment)
    assert len(remarks(deployment, "nobody asked for")) == 1


def test_a_reply_in_the_name_of_another_node_is_not_believed(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"patience": 60.0}))

    def forged(asked: Message, reply: Message) -> Iterable[Message]:
        reply.metadata.__dict__["_src_node_id"] = 666
        return [reply]

    spoil(deployment, {4}, forged)
    deployment.serve()
    finished(deployment)
    assert len(remarks(deployment, "nobody asked for")) == 1
    assert [line["order"] for line in deployment.recorded("lost")] == [4]


def altered(reply: Message, **fields: Any) -> RecordDict:
    content = RecordDict(dict(reply.content))
    told: dict[str, Any] = {**reply.content["afbs"], **fields}
    content["afbs"] = ConfigRecord(told)
    return content


def with_vector(reply: Message, array: Any) -> RecordDict:
    content = RecordDict(dict(reply.content))
    content["vector"] = ArrayRecord({"vector": array})
    return content


BAD = {
    "another order": lambda reply: altered(reply, order=77),
    "another size": lambda reply: altered(reply, bytes=10**12),
    "no number": lambda reply: altered(reply, seconds="long"),
    "float64": lambda reply: with_vector(reply, Array(np.zeros(9))),
    "another shape": lambda reply: with_vector(reply, Array(np.zeros((3, 3), np.float32))),
    "too long": lambda reply: with_vector(reply, Array(np.zeros(10_000, np.float32))),
    "a lying header": lambda reply: with_vector(
        reply, Array("float32", (9,), "numpy.ndarray", _header((10**12,)) + bytes(36))
    ),
    "a pickle": lambda reply: with_vector(reply, Array("float32", (9,), "numpy.ndarray", b"\x80\x04K\x01.")),
    "not numpy": lambda reply: with_vector(reply, Array("float32", (9,), "pickle", bytes(36))),
    "nothing": lambda reply: RecordDict(),
}


def _header(shape: tuple[int, ...]) -> bytes:
    from io import BytesIO

    file = BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("bad", BAD)
def test_a_reply_that_is_not_what_was_agreed_is_lost_and_says_why(bad: str, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 4}))
    spoil(deployment, {2}, lambda asked, reply: [Message(BAD[bad](reply), reply_to=asked)])
    deployment.serve()
    finished(deployment, 4)
    assert [line["order"] for line in deployment.recorded("lost")] == [2]
    (line,) = remarks(deployment, "a bad answer")
    assert line["order"] == 2


def test_a_vector_that_is_not_finite_is_rejected_and_not_applied(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    poison = Array(np.full(9, np.nan, np.float32))
    spoil(deployment, {2}, lambda asked, reply: [Message(with_vector(reply, poison), reply_to=asked)])
    deployment.serve()
    finished(deployment)
    assert [order for line in deployment.recorded("step") for order in line["rejected"]] == [2]


def test_a_node_that_claims_more_samples_later_counts_with_what_it_registered(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 12}))
    node = deployment.nodes.nodes[101]

    def boast(asked: Message, reply: Message) -> Iterable[Message]:
        if asked.metadata.message_type == "query.hello" and deployment.nodes.time > 5:
            reply = Message(altered(reply, examples=10**6), reply_to=asked)
        return [reply]

    node.spoils = boast
    deployment.nodes.at(20.0, lambda: deployment.nodes.kill(101))
    deployment.nodes.at(90.0, lambda: deployment.nodes.start(101))
    deployment.serve()
    finished(deployment, 12)
    assert len(remarks(deployment, "it counts with the 10 it registered")) == 1
    assert {line["examples"] for line in deployment.recorded("arrival")} == {10}


def test_a_node_killed_at_work_is_lost_leaves_and_returns(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 20}))
    deployment.nodes.at(12.0, lambda: deployment.nodes.kill(102))
    deployment.nodes.at(100.0, lambda: deployment.nodes.start(102))
    deployment.serve()
    finished(deployment, 20)
    lost = [line for line in deployment.recorded("lost") if line["client"] == 2]
    assert len(lost) <= 1
    after = [line for line in deployment.recorded("dispatch") if line["client"] == 2 and line["time"] > 100]
    assert after, "the client that came back got work again"
    assert remarks(deployment, "its node has left")


def test_a_node_that_comes_back_under_another_number_is_the_same_client(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 20}))

    def again() -> None:
        deployment.nodes.add(deployment.node(2, number=999))

    deployment.nodes.at(12.0, lambda: deployment.nodes.kill(102))
    deployment.nodes.at(40.0, again)
    deployment.serve()
    finished(deployment, 20)
    assert not deployment.recorded("joined")
    assert [number for time, number, kind in deployment.nodes.handled if kind == "train" and number == 999]


def test_a_node_that_says_it_is_somebody_else_stays_out(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    impostor = deployment.node(2, number=999, home=str(tmp_path / "elsewhere"))
    deployment.nodes.at(15.0, lambda: deployment.nodes.add(impostor))
    deployment.serve()
    finished(deployment)
    assert len(remarks(deployment, "node 999 cannot take part: client 2 is somebody else")) == 1
    assert not [number for _, number, kind in deployment.nodes.handled if kind == "train" and number == 999]


def test_a_late_node_joins_and_gets_work(tmp_path: Path) -> None:
    clusters = {"name": "plain_for_research", "number": 2}
    settings = tables("afbs", clusters=clusters, transport={"clients": 4}, run={"versions": 15})
    deployment = Deployment(tmp_path, settings, clients=4)
    deployment.nodes.at(20.0, lambda: deployment.nodes.add(deployment.node(5)))
    deployment.serve()
    finished(deployment, 15)
    (joined,) = deployment.recorded("joined")
    assert (joined["client"], joined["examples"]) == (5, 10)
    assert joined["cluster"] in (0, 1)
    assert any(line["client"] == 5 for line in deployment.recorded("arrival"))


def test_a_node_that_never_answers_is_given_up_and_left_alone(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"patience": 60.0}))
    silent = deployment.nodes.nodes[104]
    silent.lasts = lambda message: 1e6 if is_train(message) else uneven(message)
    deployment.serve()
    finished(deployment)
    lost = [line for line in deployment.recorded("lost") if line["client"] == 4]
    assert len(lost) == 1
    (line,) = remarks(deployment, "no answer in time")
    assert (line["client"], line["order"]) == (4, lost[0]["order"])


def test_an_answer_that_comes_too_late_is_noted_and_its_client_is_asked_again(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"patience": 40.0}, run={"versions": 25}))
    slow = deployment.nodes.nodes[104]
    first: list[int | None] = []

    def lasts(message: Message) -> float:
        if is_train(message) and not first:
            first.append(order_of(message))
            return 55.0
        return uneven(message)

    slow.lasts = lasts
    deployment.serve()
    finished(deployment, 25)
    (late,) = remarks(deployment, "too late")
    assert late["order"] == first[0]
    assert any(line["client"] == 4 for line in deployment.recorded("arrival"))


def test_a_reply_to_a_version_long_gone_is_an_arrival_like_any_other(tmp_path: Path) -> None:
    """It is as stale as it is, and the algorithm decides what that means."""
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 12}, algorithm={"max_staleness": 5}))
    first: list[int | None] = []

    def lasts(message: Message) -> float:
        if is_train(message) and not first:
            first.append(order_of(message))
            return 120.0
        return uneven(message)

    deployment.nodes.nodes[104].lasts = lasts
    deployment.serve()
    finished(deployment, 12)
    (old,) = [line for line in deployment.recorded("arrival") if line["order"] == first[0]]
    assert old["version"] - old["base_version"] > 5
    (step,) = [line for line in deployment.recorded("step") if first[0] in line["dropped"]["order"]]
    assert "too stale" in step["dropped"]["why"]


def test_a_node_that_dies_between_announcing_and_uploading_is_left_out_of_its_step(tmp_path: Path) -> None:
    """On demand: it is killed as soon as it announced order 1, and the step goes on without its vector."""
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"upload": "on_demand"}))

    def dies(asked: Message, reply: Message) -> Iterable[Message]:
        number = asked.metadata.dst_node_id
        deployment.nodes.at(deployment.nodes.time + 0.01, lambda: deployment.nodes.kill(number))
        return [reply]

    spoil(deployment, {1}, dies)
    deployment.serve()
    finished(deployment)
    (step,) = [line for line in deployment.recorded("step") if line["missing"]]
    assert step["missing"] == [1]
    assert len(step["used"]["order"]) == 2
    assert [line["order"] for line in remarks(deployment, "its vector did not come")] == [1]


def test_a_node_that_does_not_answer_a_fetch_is_left_out_after_the_deadline(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"upload": "on_demand", "fetch_seconds": 30.0}))

    def mute(asked: Message, reply: Message) -> Iterable[Message]:
        return [] if asked.metadata.message_type == "query.fetch" and order_of(asked) == 1 else [reply]

    for node in deployment.nodes.nodes.values():
        node.spoils = mute
    deployment.serve()
    finished(deployment)
    assert [line["missing"] for line in deployment.recorded("step") if line["missing"]] == [[1]]
    assert len(remarks(deployment, "its vector did not come: no answer in time")) == 1


def test_a_message_that_cannot_be_sent_is_a_lost_order(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    grid = MemoryGrid(deployment.nodes)
    grid.refuse = lambda message: is_train(message) and order_of(message) == 3
    deployment.serve(grid)
    finished(deployment)
    assert [line["order"] for line in remarks(deployment, "could not be sent")] == [3]


def test_a_silent_fleet_says_so_and_ends_when_it_was_told_to(tmp_path: Path) -> None:
    settings = tables("fedbuff", transport={"patience": 5000.0, "silence": 600.0})
    deployment = Deployment(tmp_path, settings, lasts=lambda message: 1e7 if is_train(message) else 0.25)
    deployment.serve()
    told = [text for text in deployment.said if text.startswith("Nothing heard for 60 s")]
    assert len(told) == 1
    assert "4 orders are out; the run ends after 600 s of it, an order is given up after 5000 s." in told[0]
    assert deployment.recorded("end")[0]["reason"] == "stalled"


def test_when_everybody_leaves_the_run_waits_for_those_who_come_back(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))

    def everybody(what: Any) -> None:
        for number in list(deployment.nodes.nodes):
            what(number)

    deployment.nodes.at(30.0, lambda: everybody(deployment.nodes.kill))
    deployment.nodes.at(500.0, lambda: everybody(deployment.nodes.start))
    deployment.serve()
    finished(deployment)
    assert len(deployment.recorded("returned")) >= 1
    assert any("0 clients are connected" in text for text in deployment.said)
