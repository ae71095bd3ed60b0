"""Writing a run folder: whole lines, whole files, and a message where there is no room."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from afbs.record.writer import RecordError, Writer, create_folder, discard_unless_run, is_begun, replace_file
from afbs.types import UserError


def test_lines_are_appended_after_the_offset_and_what_came_after_it_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.event(event="a")
        offset = writer.position()
        writer.event(event="b")
    with Writer(tmp_path, offset) as writer:
        assert writer.position() == offset
        writer.event(event="c")
    found = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert found == ["a", "c"]


def test_readers_see_what_was_flushed_before_the_run_ends(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.event(event="a", name="größer")
        writer.flush()
        assert json.loads((tmp_path / "events.jsonl").read_text(encoding="utf-8")) == {"event": "a", "name": "größer"}


def test_a_run_that_is_being_written_cannot_be_taken_up_by_another(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.event(event="a")
        with pytest.raises(UserError, match="is being written by another process"):
            Writer(tmp_path, 0)
    with Writer(tmp_path) as writer:
        assert writer.position() > 0


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
        writer.position()
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
