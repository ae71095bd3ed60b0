"""The reader turns a run folder into columns, whatever state the folder is in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from afbs.record import reader
from afbs.record.kinds import EvalLine
from afbs.record.schema import SCHEMA
from afbs.types import UserError

Columns: TypeAlias = dict[str, list[Any]]


def folder(tmp_path: Path, events: list[dict[str, Any] | str], **meta: Any) -> Path:
    (tmp_path / "meta.json").write_text(
        json.dumps({"schema": SCHEMA, "name": "n", "algorithm": "afbs", "seed": 3} | meta)
    )
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + ("\n" if lines else ""))
    return tmp_path


def step(version: int, time: float, used: Columns, dropped: Columns | None = None) -> Any:
    return {"event": "step", "version": version, "time": time, "used": used, "dropped": dropped or {}, "wall": time}


def eval_(version: int, time: float, accuracy: float | None, **more: Any) -> dict[str, Any]:
    return {"event": "eval", "version": version, "time": time, "accuracy": accuracy, "loss": 1.0, "wall": 0.1, **more}


def versions_of(tail: reader.Tail) -> list[int]:
    return [said.version for said in tail.lines if isinstance(said, EvalLine)]


TWO: Columns = {"client": [4, 7], "staleness": [0, 2], "examples": [10, 30], "order": [0, 1], "weight": [0.5, 0.25]}
ONE: Columns = {"client": [5], "staleness": [3], "examples": [2], "order": [2]}


def test_a_step_becomes_rows_of_used_and_dropped_updates(tmp_path: Path) -> None:
    run = reader.read(folder(tmp_path, [step(1, 8.0, TWO, ONE), step(2, 9.0, TWO)]))
    assert run.steps.used.tolist() == [2, 2]
    assert run.steps.dropped.tolist() == [1, 0]
    assert run.steps.scale.tolist() == [0.75, 0.75]
    assert run.updates.step.tolist() == [0, 0, 0, 1, 1]
    assert run.updates.client.tolist() == [4, 7, 5, 4, 7]
    assert run.updates.used.tolist() == [True, True, False, True, True]
    assert run.updates.staleness.tolist() == [0, 2, 3, 0, 2]
    assert np.isnan(run.updates.weight).tolist() == [False, False, True, False, False]


def test_an_order_ends_with_its_arrival_or_its_loss(tmp_path: Path) -> None:
    dispatches = [{"event": "dispatch", "time": 0.0, "client": c, "version": 0, "sequence": c} for c in range(3)]
    events: list[dict[str, Any] | str] = [
        *dispatches,
        {"event": "arrival", "time": 5.0, "client": 1, "base_version": 0, "version": 0, "examples": 9, "order": 1},
        {"event": "lost", "time": 6.0, "client": 2, "order": 2},
    ]
    orders = reader.read(folder(tmp_path, events)).orders
    assert orders.lost.tolist() == [False, False, True]
    assert math.isnan(orders.finish[0])
    assert orders.finish[1:].tolist() == [5.0, 6.0]


def test_accuracy_is_summed_up_without_a_result_file(tmp_path: Path) -> None:
    run = reader.read(folder(tmp_path, [eval_(0, 0.0, 0.1), eval_(3, 50.0, 0.7), eval_(5, 90.0, 0.6)]))
    assert (run.best, run.final) == (0.7, 0.6)
    assert run.time_to(0.5) == 50.0
    assert run.time_to(0.71) is None
    assert run.result is None


def test_torn_and_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    events: list[dict[str, Any] | str] = [
        eval_(0, 0.0, 0.1),
        '{"event": "ev{"event": "resume"}',
        "[1]",
        '{"event": "step"}',
        '{"event": "eval", "ti',
    ]
    run = reader.read(folder(tmp_path, events))
    assert run.evals.version.tolist() == [0]
    assert run.unreadable == 4


def test_what_a_resumed_run_tells_twice_counts_once_and_the_later_telling_wins(tmp_path: Path) -> None:
    again = {"event": "resume", "version": 1, "wall": 5.0}
    events = [step(1, 1.0, TWO), step(2, 2.0, TWO), eval_(2, 2.0, 0.3), again, step(2, 2.0, ONE), eval_(2, 2.0, 0.4)]
    run = reader.read(folder(tmp_path, events))
    assert run.steps.version.tolist() == [1, 2]
    assert run.updates.client.tolist() == [4, 7, 5]
    assert run.evals.of("accuracy").tolist() == [0.4]
    assert run.resumes == 1


def test_a_missing_number_is_nan_and_never_the_best(tmp_path: Path) -> None:
    run = reader.read(folder(tmp_path, [eval_(0, 0.0, 0.2), eval_(1, 1.0, None)]))
    assert np.isnan(run.evals.of("accuracy")).tolist() == [False, True]
    assert run.best == run.final == 0.2


def test_a_run_that_has_just_begun_is_empty_but_readable(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"schema": 2}')
    run = reader.read(tmp_path)
    assert len(run.evals.time) == len(run.steps.time) == len(run.updates.client) == len(run.orders.start) == 0
    assert run.algorithm == "unknown"
    assert math.isnan(run.best)


def test_the_last_confusion_is_kept_if_it_is_square(tmp_path: Path) -> None:
    end = {"event": "end", "time": 2.0, "reason": "horizon", "confusion": [[3, 1], [0, 4]]}
    resumed = {"event": "resume", "version": 1, "wall": 1.0}
    run = reader.read(folder(tmp_path, [end | {"confusion": [[4, 0], [2, 2]]}, resumed, end]))
    assert run.confusion is not None
    assert run.confusion.tolist() == [[3, 1], [0, 4]]
    odd = reader.read(folder(tmp_path, [end | {"confusion": [[3], [1, 2]]}]))
    assert (odd.confusion, odd.unreadable) == (None, 1)


def test_another_schema_is_refused_by_number(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has schema 1; this version of afbs reads schema 2"):
        reader.read(folder(tmp_path, [], schema=1))


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        reader.find([tmp_path])
    with pytest.raises(UserError, match="is not a folder"):
        reader.find([tmp_path / "nothing"])


def test_runs_are_found_below_a_folder_once_each(tmp_path: Path) -> None:
    for name in ("b", "a", "deep/c"):
        (tmp_path / name).mkdir(parents=True)
        folder(tmp_path / name, [])
    found = reader.find([tmp_path, tmp_path / "a"])
    assert [path.name for path in found] == ["a", "b", "c"]


def test_tail_goes_on_where_it_stopped_and_leaves_a_torn_line_for_later(tmp_path: Path) -> None:
    path = folder(tmp_path, [eval_(0, 0.0, 0.1)])
    first = reader.tail(path)
    assert versions_of(first) == [0]
    line = json.dumps(eval_(1, 1.0, 0.2))
    with (path / "events.jsonl").open("a") as file:
        file.write(line[:20])
    torn = reader.tail(path, first.place)
    assert (torn.lines, torn.place) == ([], first.place)
    with (path / "events.jsonl").open("a") as file:
        file.write(line[20:] + "\n")
    assert versions_of(reader.tail(path, torn.place)) == [1]


def test_tail_reads_a_long_file_in_bounded_pieces(tmp_path: Path) -> None:
    path = folder(tmp_path, [eval_(version, float(version), 0.1) for version in range(100)])
    place, versions = reader.Place(), []
    for _ in range(100):
        piece = reader.tail(path, place, most=500)
        assert len(piece.lines) <= 6
        versions += versions_of(piece)
        place = piece.place
    assert versions == list(range(100))


def test_tail_starts_over_when_the_file_shrank(tmp_path: Path) -> None:
    path = folder(tmp_path, [eval_(version, 0.0, 0.1) for version in range(5)])
    end = reader.tail(path).place
    folder(tmp_path, [eval_(9, 0.0, 0.1)])
    again = reader.tail(path, end)
    assert again.restarted
    assert versions_of(again) == [9]


def test_tail_notices_a_file_that_was_cut_back_and_has_grown_past_where_it_was(tmp_path: Path) -> None:
    path = folder(tmp_path, [eval_(version, 0.0, 0.1) for version in range(5)])
    end = reader.tail(path).place
    folder(tmp_path, [eval_(0, 0.0, 0.1), *(eval_(version, 0.0, 0.25) for version in range(1, 9))])
    again = reader.tail(path, end)
    assert again.restarted
    assert versions_of(again) == list(range(9))
