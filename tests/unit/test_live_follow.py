"""A follower reads what was appended, once, and explains what each step kept and dropped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from afbs.report.follow import Cursor, Follower
from afbs.report.glimpse import glimpse
from synthetic import columns, write_run, write_small


def append(folder: Path, *events: dict[str, Any]) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def step_of(version: int, used: Any, dropped: Any, **more: Any) -> dict[str, Any]:
    return {"event": "step", "time": 4.0, "version": version, "used": used, "dropped": dropped, **more}


def latest(folder: Path) -> dict[str, Any]:
    follower = Follower(folder)
    follower.poll()
    flush: dict[str, Any] = follower.since(Cursor())[0]["flushes"][-1]
    return flush


def test_the_reasons_of_a_step_are_those_that_stand_in_its_record(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [], ended=False)
    used = columns((1, 0, 39), (2, 3, 100), weights=[0.5, 0.5]) | {"why": ["best of its cluster", "large enough"]}
    append(folder, step_of(1, used, columns((3, 0, 90)) | {"why": ["drawn by lot"]}))
    flush = latest(folder)
    assert flush["why"] == ["best of its cluster", "large enough", "drawn by lot"]
    assert (flush["best"], flush["kept"]) == ([0], 2)


def test_a_step_without_reasons_has_no_yardstick_and_nothing_is_made_up(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [], ended=False)
    append(folder, step_of(1, columns((1, 0, 39), weights=[1.0]), columns((3, 4, 9))))
    flush = latest(folder)
    assert (flush["why"], flush["best"], flush["kept"]) == (["", ""], [], 1)


def test_what_was_rejected_missing_or_left_is_counted(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [], ended=False)
    append(folder, step_of(1, columns((1, 0, 39), weights=[1.0]), {}, rejected=[4], missing=[5, 6]))
    append(folder, {"event": "left", "time": 5.0, "client": 1}, {"event": "woken", "time": 6.0})
    follower = Follower(folder)
    follower.poll()
    now = follower.since(Cursor())[0]["now"]
    assert {name: now["counts"][name] for name in ("rejected", "missing", "left")} == {
        "rejected": 1,
        "missing": 2,
        "left": 1,
    }
    assert now["unreadable"] == 0


def test_a_record_that_becomes_a_pipe_is_reported_and_does_not_stop_the_page(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1], ended=False)
    follower = Follower(folder)
    follower.poll()
    (folder / "events.jsonl").unlink()
    os.mkfifo(folder / "events.jsonl")
    assert not follower.poll()
    now = follower.since(Cursor())[0]["now"]
    assert now["state"] == "unreadable"
    assert "it is a pipe, not a file" in now["remark"]


def test_an_onlooker_is_told_everything_once(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1, 0.2], ended=False)
    follower = Follower(folder)
    follower.poll()
    first, cursor = follower.since(Cursor())
    assert first["fresh"]
    assert [row[3] for row in first["evals"]] == [0.1, 0.2]
    append(folder, {"event": "eval", "time": 300.0, "version": 3, "accuracy": 0.3, "loss": 0.7, "wall": 1.0})
    follower.poll()
    second, _ = follower.since(cursor)
    assert not second["fresh"]
    assert [row[3] for row in second["evals"]] == [0.3]


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    """The part that was read is overwritten with rubbish: a follower that looked at it again would stumble."""
    folder = write_small(tmp_path / "run", [0.1] * 50, ended=False)
    follower = Follower(folder)
    follower.poll()
    _, cursor = follower.since(Cursor())
    path = folder / "events.jsonl"
    known = path.read_bytes()
    path.write_bytes(b"#" * (len(known) - 100) + known[-100:])
    append(folder, {"event": "eval", "time": 9e3, "version": 99, "accuracy": 0.5, "wall": 1.0})
    follower.poll()
    message, _ = follower.since(cursor)
    assert [row[1] for row in message["evals"]] == [99]
    assert message["now"]["unreadable"] == 0


def test_a_run_that_was_taken_up_again_is_told_anew(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1, 0.2, 0.3], ended=False)
    follower = Follower(folder)
    follower.poll()
    _, cursor = follower.since(Cursor())
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text(lines[0] + '{"event": "resume", "version": 0, "wall": 1.0}\n')
    follower.poll()
    message, _ = follower.since(cursor)
    assert message["fresh"]
    assert [row[3] for row in message["evals"]] == [0.1]


def test_the_buffer_fills_with_arrivals_and_empties_with_a_step(tmp_path: Path) -> None:
    about = {"clients": {"id": [4, 5], "examples": [8, 9], "cluster": [0, 1], "latency": None}}
    folder = write_small(tmp_path / "run", [], meta=about, ended=False)
    for order, client in enumerate((4, 5)):
        append(folder, {"event": "dispatch", "time": 1.0, "client": client, "version": 0, "sequence": order})
    arrival = {"event": "arrival", "time": 3.0, "base_version": 0, "version": 1}
    append(folder, arrival | {"client": 5, "examples": 9, "order": 1})
    follower = Follower(folder)
    follower.poll()
    now = follower.since(Cursor())[0]["now"]
    assert now["buffer"] == [[5, 1, 9, 1]]
    assert now["room"] == 0
    assert [lane[:4] for lane in now["lanes"]] == [[5, 1.0, 3.0, "waiting"], [4, 1.0, None, "training"]]
    append(folder, arrival | {"client": 4, "examples": 8, "order": 0})
    used, dropped = columns((4, 1, 8), weights=[1.0]), columns((5, 1, 9))
    append(folder, {"event": "step", "time": 4.0, "version": 1, "used": used, "dropped": dropped | {"order": [1]}})
    follower.poll()
    now = follower.since(Cursor())[0]["now"]
    assert (now["buffer"], now["room"]) == ([], 2)
    assert {lane[0]: lane[3] for lane in now["lanes"]} == {4: "used", 5: "dropped"}


def test_states_are_running_ended_interrupted_and_silent(tmp_path: Path) -> None:
    running = write_small(tmp_path / "running", [0.1], ended=False)
    ended = write_small(tmp_path / "ended", [0.1])
    stopped = write_small(tmp_path / "stopped", [0.1], ended=False)
    append(stopped, {"event": "end", "reason": "interrupted", "time": 1.0, "wall": 1.0})
    killed = write_run(tmp_path / "killed", horizon=20_000, ended=False)
    os.utime(killed / "events.jsonl", (1e9, 1e9))
    folders = (running, ended, stopped, killed)
    assert [glimpse(folder).line()["state"] for folder in folders] == ["running", "ended", "interrupted", "silent"]
    for folder, state in zip(folders, ["running", "ended", "interrupted", "silent"], strict=True):
        follower = Follower(folder)
        follower.poll()
        assert follower.state() == state


def test_a_glimpse_reads_the_end_of_a_long_record_only(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1 + i / 1e5 for i in range(5000)], ended=False)
    seen = glimpse(folder, most=2000)
    assert seen.line()["value"] == "15.0 %"
    assert glimpse(folder, seen) is seen
    append(folder, {"event": "eval", "time": 9e9, "version": 5000, "accuracy": 0.9})
    assert glimpse(folder, seen).line()["value"] == "90.0 %"


def test_many_evaluations_are_thinned_before_they_are_sent(tmp_path: Path) -> None:
    follower = Follower(write_small(tmp_path / "run", [0.1] * 4999 + [0.9], ended=False))
    follower.poll(most=1 << 24)
    sent = follower.since(Cursor())[0]["evals"]
    assert len(sent) <= 1000
    assert sent[-1][3] == 0.9


def test_rubbish_between_the_lines_is_counted_and_survived(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1], ended=False)
    append(folder, {"event": "step"}, {"event": "arrival", "time": None})
    with (folder / "events.jsonl").open("a") as file:
        file.write("not json\n")
    follower = Follower(folder)
    follower.poll()
    assert follower.since(Cursor())[0]["now"]["unreadable"] == 3


def test_steps_of_many_updates_are_sent_in_a_message_of_bounded_size(tmp_path: Path) -> None:
    rows = [(client, 0, 9) for client in range(3000)]
    step = {"used": columns(*rows, weights=[1.0] * 3000), "dropped": {}}
    steps = [{**step, "version": version, "time": float(version)} for version in range(1, 21)]
    follower = Follower(write_small(tmp_path / "run", [0.1], steps=steps, ended=False))
    while follower.poll():
        pass
    sent = follower.since(Cursor())[0]["flushes"]
    assert sent[-1]["version"] == 20
    assert sum(len(flush["client"]) for flush in sent) <= 20_000
