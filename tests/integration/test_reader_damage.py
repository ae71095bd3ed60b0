"""A damaged file of a run is named with what is wrong with it, and does not stop what can do without it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import afbs
from afbs.cli import app
from afbs.record import reader
from afbs.report import trackers, write
from afbs.report.figures import figures
from afbs.report.live import Runs
from afbs.types import UserError
from synthetic import write_run, write_small

Change = Callable[[Path], Any]


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def text(content: str) -> Change:
    return lambda path: path.write_text(content)


BAD_META: list[tuple[Change, str]] = [
    (folder, r"meta\.json` cannot be read: it is a folder, not a file"),
    (pipe, r"meta\.json` cannot be read: it is a pipe, not a file"),
    (loop, r"meta\.json` cannot be read: Too many levels of symbolic links"),
    (text(""), r"meta\.json` is damaged: it is not JSON"),
    (text("null"), r"meta\.json` is damaged: it holds null where a JSON object should be"),
    (text("7"), r"meta\.json` is damaged: it holds 7 where"),
    (text("[" * 100_000), r"meta\.json` is damaged: it is not JSON \(recursion limit exceeded"),
    (text("{}"), r"meta\.json` has no schema; this version of afbs reads schema 2"),
    (text('{"schema": 1}'), r"meta\.json` has schema 1; this version of afbs reads schema 2"),
    (text('{"schema": true}'), r"meta\.json` has schema true"),
    (text('{"schema": 2, "horizon": "long"}'), r'meta\.json` is damaged: `horizon` should be a number, and is "long"'),
    (text('{"schema": 2, "clients": {"id": [1, null]}}'), r"`clients\.id\.1` should be a whole number, and is null"),
    (text('{"schema": 2, "clients": {"id": [1], "cluster": []}}'), r"`cluster` has 0 entries, and there are 1 clients"),
    (text('{"schema": 2, "name": "\\ud800"}'), r"meta\.json` is damaged: it is not JSON"),
]


@pytest.mark.parametrize(("change", "words"), BAD_META, ids=[words for _, words in BAD_META])
def test_a_header_that_is_no_header_is_refused_in_words(tmp_path: Path, change: Change, words: str) -> None:
    run = write_small(tmp_path / "run", [0.5])
    change(run / "meta.json")
    with pytest.raises(UserError, match=words):
        afbs.load(run)
    (line,) = Runs(tmp_path).listing()
    assert line["state"] == "unreadable"
    assert "meta.json" in line["remark"]


def test_what_does_not_need_the_header_reads_without_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", horizon=15_000)
    pipe(run / "meta.json")
    assert reader.is_done(run)
    assert reader.read_result(run) is not None
    assert len(list(reader.lines(run))) == len((run / "events.jsonl").read_text().splitlines())


@pytest.mark.parametrize("change", [folder, pipe, loop])
def test_a_record_that_is_no_file_is_named(tmp_path: Path, change: Change) -> None:
    run = write_small(tmp_path / "run", [0.5])
    change(run / "events.jsonl")
    for read in (afbs.load, reader.tail, lambda path: trackers.export(path, "tensorboard")):
        with pytest.raises(UserError, match=r"events\.jsonl` cannot be read"):
            read(run)


@pytest.mark.parametrize("change", [folder, pipe, loop, text("null"), text('{"jobs": []}'), text('{"jobs": {"trai')])
def test_a_damaged_summary_is_remarked_upon_and_done_without(tmp_path: Path, change: Change) -> None:
    run = write_run(tmp_path / "run", horizon=15_000)
    change(run / "result.json")
    shown = CliRunner().invoke(app, ["show", str(run)])
    assert shown.exit_code == 0
    assert "result.json" in shown.output
    assert "afbs resume" in shown.output
    assert "result.json" in write([run], tmp_path / "report.html").read_text()
    with pytest.raises(UserError, match=r"result\.json` .*Remove it, and this writes it again: afbs resume"):
        reader.is_done(run)


def test_a_summary_that_lacks_a_field_is_shown_without_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", horizon=15_000)
    for name in json.loads((run / "result.json").read_text()):
        kept = json.loads((run / "result.json").read_text())
        (run / "result.json").write_text(json.dumps({key: value for key, value in kept.items() if key != name}))
        shown = CliRunner().invoke(app, ["show", str(run)])
        assert shown.exit_code == 0, name
    assert "sha256 –" in shown.output


@pytest.mark.parametrize(
    "change", [folder, pipe, loop, text("a = "), text("a = " + "[" * 100_000), text("a." * 3000 + "b = 1")]
)
def test_a_damaged_configuration_is_remarked_upon_and_done_without(tmp_path: Path, change: Change) -> None:
    run = write_run(tmp_path / "run", horizon=15_000)
    change(run / "config.toml")
    assert "config.toml" in afbs.load(run).record.problems[0]
    assert "config.toml" in write([run], tmp_path / "report.html").read_text()


def test_a_run_without_events_yet_is_drawn_beside_one_that_has_ended(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", horizon=15_000)
    (write_run(tmp_path / "runs" / "b", "fedbuff", horizon=15_000, ended=False) / "events.jsonl").unlink()
    assert figures([tmp_path / "runs"], tmp_path / "out", "svg")


def test_one_bad_run_neither_hides_nor_stops_the_others(tmp_path: Path) -> None:
    write_small(tmp_path / "runs" / "good", [0.5])
    for name, change in (("pipe", pipe), ("loop", loop), ("folder", folder)):
        change(write_small(tmp_path / "runs" / name, [0.5]) / "meta.json")
        change(write_small(tmp_path / "runs" / f"{name}-events", [0.5], algorithm="fedbuff") / "events.jsonl")
    lines = {line["id"]: line["state"] for line in Runs(tmp_path / "runs").listing()}
    assert lines.pop("good") == "ended"
    assert set(lines.values()) == {"unreadable"}
    notes: list[str] = []
    page = write([tmp_path / "runs"], tmp_path / "report.html", notes.append).read_text()
    assert len(notes) == 6
    assert all(note.startswith("Left out: `") for note in notes)
    assert "it is a pipe, not a file." in page
    with pytest.raises(UserError, match="it is a pipe"):
        write([tmp_path / "runs" / "good", tmp_path / "runs" / "pipe"], tmp_path / "report.html")


def test_a_tracker_that_cannot_write_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'afbs[tensorboard]'")
    run = write_small(tmp_path / "run", [0.5])
    (tmp_path / "file").write_text("taken")
    for destination in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot be written"):
            trackers.export(run, "tensorboard", destination=str(destination))
    (run / "tensorboard").write_text("taken")
    with pytest.raises(UserError, match="tensorboard` cannot be written"):
        trackers.export(run, "tensorboard")


def test_a_model_that_is_no_model_is_a_sentence(tmp_path: Path) -> None:
    run = write_small(tmp_path / "run", [0.5])
    with pytest.raises(UserError, match="has no final model: the run has not ended"):
        assert afbs.load(run).params
    for content in (b"", b"rubbish", b"\xff" * 100):
        (run / "model.safetensors").write_bytes(content)
        with pytest.raises(UserError, match=r"model\.safetensors` is damaged"):
            assert afbs.load(run).params
    pipe(run / "model.safetensors")
    with pytest.raises(UserError, match="it is a pipe"):
        assert afbs.load(run).params


def test_a_replay_is_told_each_line_with_its_offset_and_stops_where_asked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", horizon=15_000, ended=False)
    content = (run / "events.jsonl").read_bytes()
    found = list(reader.lines(run))
    assert [json.loads(content[offset:].split(b"\n")[0]) for offset, _ in found] == [line for _, line in found]
    assert len(found) == content.count(b"\n"), "the torn last line is not there"
    half = found[len(found) // 2][0]
    assert list(reader.lines(run, until=half)) == found[: len(found) // 2]
    assert list(reader.lines(run, until=0)) == []


def test_a_replay_refuses_a_line_that_it_cannot_do_without(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", horizon=15_000)
    content = (run / "events.jsonl").read_bytes()
    start = content.index(b"\n") + 1
    (run / "events.jsonl").write_bytes(content[:start] + b"#" + content[start + 1 :])
    with pytest.raises(UserError, match=rf"events\.jsonl` is damaged at byte {start}: it is not JSON"):
        list(reader.lines(run))
    assert list(reader.lines(run, until=start))


def test_a_folder_that_holds_no_run_is_neither_done_nor_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        reader.is_done(tmp_path)
    (tmp_path / "config.toml").write_text("")
    assert not reader.is_done(tmp_path)


WHOLE = b"".join(
    json.dumps({"event": "eval", "time": float(i), "version": i, "accuracy": i / 100, "loss": 1.0}).encode() + b"\n"
    for i in range(60)
)


@settings(max_examples=60)
@given(st.binary(max_size=400), st.integers(0, len(WHOLE)))
def test_torn_and_foreign_bytes_cost_one_line_at_most_on_either_side(rubbish: bytes, place: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "meta.json").write_text('{"schema": 2}')
        (Path(root) / "events.jsonl").write_bytes(WHOLE[:place] + rubbish + WHOLE[place:])
        known = set(reader.read(root).evals.version.tolist())
    assert len(set(range(60)) - known) <= 1
