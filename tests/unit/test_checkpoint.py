"""Checkpoints: all that was put in comes out; what was damaged is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from afbs.record.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from afbs.record.seal import Seal
from afbs.types import Vector

RUN = "5ea1"
LINES = [b'{"event":"left","time":1.5,"client":3}', b'{"event":"woken","time":2.0,"wall":0.25}']
RECORD = b"".join(line + b"\n" for line in LINES)


def sealed(lines: list[bytes]) -> str:
    seal = Seal()
    for line in lines:
        seal.add(line)
    return seal.text()


def vector(value: float) -> Vector:
    return np.full(5, value, np.float32)


def checkpoint(version: int) -> Checkpoint:
    return Checkpoint(
        version=version,
        params=vector(version),
        memory={"h": vector(0.5), "cache/3": vector(1.5), "step": np.array(7)},
        states={7: vector(-1.0)},
        versions={version - 1: vector(version - 1)},
        counts={"used": 12, "train": 0.25},
        offset=len(RECORD),
        seal=sealed(LINES),
        unfit={"rejected": [4], "missing": [1, 2]},
        run=RUN,
        wall=6.5,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "events.jsonl").write_bytes(RECORD)
    return tmp_path


def test_everything_comes_back(folder: Path) -> None:
    save_checkpoint(folder, checkpoint(4))
    found, complaints = load_checkpoint(folder, RUN)
    assert found is not None
    assert not complaints
    assert (found.version, found.offset, found.wall) == (4, len(RECORD), 6.5)
    assert found.counts == {"used": 12, "train": 0.25}
    assert found.unfit == {"rejected": [4], "missing": [1, 2]}
    assert (found.run, found.seal) == (RUN, sealed(LINES))
    assert found.params.tobytes() == vector(4).tobytes()
    remembered = {name: row.tolist() for name, row in found.memory.items()}
    assert remembered == {"h": [0.5] * 5, "cache/3": [1.5] * 5, "step": 7}
    assert {client: row.tolist() for client, row in found.states.items()} == {7: [-1.0] * 5}
    assert {version: row.tolist() for version, row in found.versions.items()} == {3: [3.0] * 5}


@pytest.mark.parametrize("left", [len(RECORD) - 1, 0, None])
def test_a_checkpoint_whose_events_are_lost_is_passed_over(left: int | None, folder: Path) -> None:
    """Going on from it would leave a hole in the history, and a wrong time to the target."""
    save_checkpoint(folder, checkpoint(4))
    events = folder / "events.jsonl"
    events.unlink() if left is None else events.write_bytes(RECORD[:left])
    found, complaints = load_checkpoint(folder, RUN)
    assert found is None
    assert complaints == ["events.jsonl has lost what was before 00000004.safetensors; it is passed over."]


def test_a_checkpoint_whose_events_were_changed_is_passed_over(folder: Path) -> None:
    save_checkpoint(folder, checkpoint(4))
    (folder / "events.jsonl").write_bytes(RECORD.replace(b'"client":3', b'"client":4'))
    found, complaints = load_checkpoint(folder, RUN)
    assert found is None
    assert complaints == ["events.jsonl is not what it was when 00000004.safetensors was written; it is passed over."]


def test_what_was_recorded_after_a_checkpoint_does_not_matter(folder: Path) -> None:
    save_checkpoint(folder, checkpoint(4))
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event":"left","time":9.0,"client":8}\n{"torn":')
    found, complaints = load_checkpoint(folder, RUN)
    assert found is not None
    assert not complaints


def test_a_checkpoint_of_another_run_is_passed_over(folder: Path) -> None:
    save_checkpoint(folder, checkpoint(4))
    found, complaints = load_checkpoint(folder, "0ther")
    assert found is None
    assert complaints == ["00000004.safetensors belongs to another run; it is passed over."]


def test_the_two_newest_are_kept(folder: Path) -> None:
    for version in (9, 10, 99, 100):
        save_checkpoint(folder, checkpoint(version))
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "00000099.safetensors",
        "00000100.safetensors",
    ]


def test_every_single_flipped_bit_is_noticed(folder: Path) -> None:
    path = save_checkpoint(folder, checkpoint(4))
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[place] ^= 4
        path.write_bytes(broken)
        found, complaints = load_checkpoint(folder, RUN)
        # A bit of the metadata may fall into a space between two words; then nothing is lost, and all must be right.
        if found is None:
            assert len(complaints) == 1
        else:
            assert found.params.tobytes() == vector(4).tobytes()
            assert found.counts == checkpoint(4).counts


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -1])
def test_a_torn_file_is_passed_over_for_the_one_before(kept: int, folder: Path) -> None:
    save_checkpoint(folder, checkpoint(4))
    newest = save_checkpoint(folder, checkpoint(5))
    newest.write_bytes(newest.read_bytes()[:kept])
    found, complaints = load_checkpoint(folder, RUN)
    assert found is not None
    assert found.version == 4
    assert len(complaints) == 1
    assert complaints[0].startswith("00000005.safetensors is damaged")


def test_a_half_written_file_does_not_count(folder: Path) -> None:
    (folder / "checkpoints" / "00000009.safetensors.part").write_bytes(b"half")
    assert load_checkpoint(folder, RUN) == (None, [])
