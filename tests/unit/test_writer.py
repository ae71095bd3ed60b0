"""Writing a run folder: whole lines, whole files, and a message where there is no room."""

from __future__ import annotations

import errno
import json
from hashlib import blake2b
from pathlib import Path

import pytest

from afbs.record.writer import RecordError, Writer, create_folder, discard_unless_run, is_begun, replace_file
from afbs.types import UserError


def test_lines_are_appended_after_the_offset_and_what_came_after_it_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.line({"event": "a"})
        offset = writer.sync()
        writer.line({"event": "b"})
    with Writer(tmp_path, offset) as writer:
        assert writer.sync() == offset
        writer.line({"event": "c"})
    found = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert found == ["a", "c"]


def test_readers_see_what_was_flushed_before_the_run_ends(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.line({"event": "a", "name": "größer"})
        writer.flush()
        assert json.loads((tmp_path / "events.jsonl").read_text(encoding="utf-8")) == {"event": "a", "name": "größer"}


def test_a_step_is_sealed_and_the_seal_leaves_out_what_the_clock_said(tmp_path: Path) -> None:
    seals = []
    for name, wall in (("one", 1.5), ("two", 22.25)):
        (tmp_path / name).mkdir()
        with Writer(tmp_path / name) as writer:
            writer.line({"event": "left", "time": 1.0, "client": 3}, wall)
            writer.line({"event": "checkpoint", "version": 0, "file": name}, wall)
            writer.line({"event": "step", "time": 2.0, "version": 1}, wall)
            writer.sync()
            last = json.loads((tmp_path / name / "events.jsonl").read_bytes().splitlines()[-1])
            assert list(last) == ["event", "time", "version", "seal", "wall"]
            assert last["wall"] == wall
            assert last["seal"] == writer.seal.text()
            seals.append(last["seal"])
    plain = b'{"event":"left","time":1.0,"client":3\n{"event":"step","time":2.0,"version":1\n'
    assert seals == [blake2b(plain, digest_size=12).hexdigest()] * 2


def test_a_record_that_is_taken_up_goes_on_with_its_seal(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    with Writer(whole) as writer:
        for time in (1.0, 2.0, 3.0):
            writer.line({"event": "step", "time": time}, 0.5)
    with Writer(parts) as writer:
        writer.line({"event": "step", "time": 1.0}, 0.5)
        offset = writer.sync()
        writer.line({"event": "step", "time": 77.0}, 0.5)
    with Writer(parts, offset) as writer:
        for time in (2.0, 3.0):
            writer.line({"event": "step", "time": time}, 0.5)
    assert (parts / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()


def test_a_run_that_is_being_written_cannot_be_taken_up_by_another(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.line({"event": "a"})
        with pytest.raises(UserError, match="is being written by another process"):
            Writer(tmp_path, 0)
    with Writer(tmp_path) as writer:
        assert writer.sync() > 0


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    replace_file(path, b"old")

    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_a_full_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", no_room)
    with Writer(tmp_path) as writer, pytest.raises(RecordError) as stopped:
        writer.sync()
    assert str(stopped.value) == (
        f"Could not write to {tmp_path}: No space left on device. Make room, then: afbs resume {tmp_path}"
    )


def test_a_document_never_holds_what_json_does_not_know(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer, pytest.raises(ValueError, match="not JSON compliant"):
        writer.document("meta.json", {"loss": float("nan")})
    assert not (tmp_path / "meta.json").exists()


def test_a_new_folder_has_its_configuration_and_an_old_one_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    create_folder(folder, "name = 'x'\n")
    assert (folder / "config.toml").read_text() == "name = 'x'\n"
    assert is_begun(folder)
    assert not is_begun(tmp_path)
    with pytest.raises(UserError, match="exists already"):
        create_folder(folder, "")
    assert (folder / "config.toml").read_text() == "name = 'x'\n"


def test_only_a_folder_in_which_nothing_ran_is_discarded(tmp_path: Path) -> None:
    for name in ("empty", "begun"):
        create_folder(tmp_path / name, "")
    (tmp_path / "begun" / "meta.json").write_text("{}")
    for name in ("empty", "begun"):
        discard_unless_run(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]
