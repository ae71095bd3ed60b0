"""What a run tells becomes the lines that `docs/run-folder.md` describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs.record.checkpoint import Checkpoint, load_checkpoint
from afbs.record.recorder import Progress, Recorder
from afbs.record.writer import Writer
from afbs.tasks.classification import Classification
from afbs.types import (
    Arrived,
    ClientInfo,
    Decided,
    Dispatched,
    Joined,
    Left,
    Looked,
    Lost,
    Order,
    Returned,
    Score,
    Step,
    Stopped,
    Update,
    Woken,
)

ORDER = Order(client=3, version=5, occurrence=1, sequence=17, time=10.0, rate=0.05)
UPDATE = Update(ORDER, version=7, examples=40, sequence=9)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    (tmp_path / "checkpoints").mkdir()
    with Writer(tmp_path) as writer:
        yield writer


def told(writer: Writer) -> list[dict[str, Any]]:
    writer.flush()
    found = [json.loads(line) for line in (writer.folder / "events.jsonl").read_text().splitlines()]
    for line in found:
        line.pop("wall", None)
    return found


def test_orders_arrivals_losses_and_the_end_are_told(writer: Writer) -> None:
    recorder = Recorder(writer)
    for event in (Dispatched(10.0, ORDER), Arrived(20.0, UPDATE), Lost(30.0, ORDER), Stopped(40.0, "horizon")):
        recorder.event(event)
    assert told(writer) == [
        {"event": "dispatch", "time": 10.0, "client": 3, "version": 5, "sequence": 17, "rate": 0.05},
        {
            "event": "arrival",
            "time": 20.0,
            "client": 3,
            "base_version": 5,
            "version": 7,
            "examples": 40,
            "order": 17,
        },
        {"event": "lost", "time": 30.0, "client": 3, "order": 17},
        {"event": "end", "time": 40.0, "reason": "horizon"},
    ]


def test_who_comes_and_goes_and_what_was_seen_is_told(writer: Writer) -> None:
    recorder = Recorder(writer)
    for event in (
        Dispatched(1.0, ORDER._replace(epochs=2)),
        Dispatched(1.0, ORDER._replace(steps=9)),
        Left(2.0, 8),
        Looked(3.0, UPDATE, {"alike": [0.5, 1.0]}),
        Returned(4.0, 8),
        Joined(5.0, ClientInfo(9, 12, 2)),
        Woken(6.0),
    ):
        recorder.event(event)
    dispatched = {"event": "dispatch", "time": 1.0, "client": 3, "version": 5, "sequence": 17, "rate": 0.05}
    assert told(writer) == [
        {**dispatched, "epochs": 2},
        {**dispatched, "steps": 9},
        {"event": "left", "time": 2.0, "client": 8},
        {"event": "look", "time": 3.0, "order": 17, "facts": {"alike": [0.5, 1.0]}},
        {"event": "returned", "time": 4.0, "client": 8},
        {"event": "joined", "time": 5.0, "client": 9, "examples": 12, "cluster": 2},
        {"event": "woken", "time": 6.0},
    ]


def test_a_step_tells_what_counted_what_did_not_and_why(writer: Writer) -> None:
    other = Update(ORDER._replace(client=4, sequence=18), version=7, examples=2, sequence=10)
    step = Step(used=(UPDATE,), dropped=(other,), notes={"lambda": 0.5}, weights=(1 / 3,))
    rejected, missing = (other._replace(order=ORDER._replace(sequence=number)) for number in (19, 20))
    recorder = Recorder(writer)
    recorder.applied(Decided(20.0, 8, step), [rejected], [missing])
    recorder.applied(Decided(21.0, 9, step._replace(why=("fresh", "stale"))), [], [])
    first, second = told(writer)
    assert len(first.pop("seal")) == 24
    assert (second["used"]["why"], second["dropped"]["why"]) == (["fresh"], ["stale"])
    assert [first] == [
        {
            "event": "step",
            "time": 20.0,
            "version": 8,
            "used": {"client": [3], "staleness": [2], "examples": [40], "order": [17], "weight": [0.333333]},
            "dropped": {"client": [4], "staleness": [2], "examples": [2], "order": [18]},
            "rejected": [19],
            "missing": [20],
            "notes": {"lambda": 0.5},
        }
    ]


def test_an_evaluation_tells_the_accuracy_of_each_class_and_the_end_the_last_confusion(writer: Writer) -> None:
    recorder = Recorder(writer)
    confusion = np.array([[3, 1, 0], [0, 0, 0], [0, 2, 2]])
    totals = {"confusion": confusion, "loss": np.float64("nan")}
    recorder.evaluated(5.0, 2, Classification().conclude(totals))
    recorder.end(6.0, "horizon")
    first, last = told(writer)
    assert first == {
        "event": "eval",
        "time": 5.0,
        "version": 2,
        "accuracy": 0.625,
        "loss": None,
        "f1": pytest.approx((6 / 7 + 2 * 2 / 6) / 2),
        "per_class": [0.75, None, 0.5],
    }
    assert last["confusion"] == confusion.tolist()


def test_a_checkpoint_knows_where_the_record_stood(writer: Writer) -> None:
    recorder = Recorder(writer, "5ea1", elapsed=100.0)
    recorder.event(Dispatched(10.0, ORDER))
    recorder.checkpoint(Checkpoint(1, np.zeros(2, np.float32), {}, {}, {}, {}))
    recorder.end(20.0, "interrupted")
    found, _ = load_checkpoint(writer.folder, "5ea1")
    assert found is not None
    lines = (writer.folder / "events.jsonl").read_bytes()[: found.offset].splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["dispatch"]
    assert found.wall >= 100.0
    assert told(writer)[-2] == {"event": "checkpoint", "version": 1, "file": "00000001.safetensors"}


def test_progress_carries_the_last_known_accuracy(writer: Writer) -> None:
    seen: list[Progress] = []
    recorder = Recorder(writer, on_progress=seen.append)
    recorder.progress(1.0, 0, 0)
    recorder.evaluated(1.0, 0, Score({"accuracy": 0.5, "loss": 1.0}))
    recorder.progress(2.0, 1, 4)
    assert [(state.time, state.version, state.trained, state.value) for state in seen] == [
        (1.0, 0, 0, None),
        (2.0, 1, 4, 0.5),
    ]
