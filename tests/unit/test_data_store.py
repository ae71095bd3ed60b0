"""The cache of converted data sets."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs.data import _digest, _store, file_of, fingerprint
from afbs.types import Dataset, UserError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def small(value: int = 1) -> Dataset:
    x = np.full((6, 1, 2, 2), value, np.uint8)
    y = np.arange(6) % 3
    return Dataset(x, y, x[:3], y[:3], 3, (0.5,), (0.25,), owners=np.arange(6))


def refuse() -> Dataset:
    raise AssertionError("it was converted again")


def only_entry() -> _store.Entry:
    (entry,) = _store.entries("toy")
    return entry


def test_a_data_set_is_converted_once_and_then_mapped() -> None:
    _store.cached("toy", {}, small)
    again = _store.cached("toy", {}, refuse)
    assert isinstance(again.train_x, np.memmap)
    assert not again.train_x.flags.writeable
    np.testing.assert_array_equal(again.train_x, small().train_x)
    np.testing.assert_array_equal(again.owners, np.arange(6))
    assert (again.classes, again.shift, again.scale, again.tokens) == (3, (0.5,), (0.25,), 0)


def test_another_recipe_is_another_entry() -> None:
    one = _store.cached("toy", {"n": 1}, lambda: small(1))
    two = _store.cached("toy", {"n": 2}, lambda: small(2))
    assert one.train_x.max() == 1
    assert two.train_x.max() == 2
    assert len(_store.entries("toy")) == 2


def test_names_that_begin_alike_are_not_confused() -> None:
    _store.cached("toy-story", {}, small)
    assert _store.entries("toy") == []


def test_a_failing_conversion_leaves_nothing_behind(cache: Path) -> None:
    def fail() -> Dataset:
        raise UserError("no")

    with pytest.raises(UserError):
        _store.cached("toy", {}, fail)
    assert not list(cache.rglob("*.npy"))
    assert _store.entries("toy") == []


def test_a_failing_write_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(UserError, match=r"No space left on device.*AFBS_CACHE"):
        _store.cached("toy", {}, small)
    assert list((cache / "data").iterdir()) == []


@pytest.mark.parametrize("damage", ["truncate", "remove", "garble meta", "remove meta"])
def test_a_damaged_entry_is_made_again(damage: str) -> None:
    _store.cached("toy", {}, small)
    folder = only_entry().folder
    target = folder / ("meta.json" if "meta" in damage else "train_x.npy")
    if damage.startswith("remove"):
        target.unlink()
    elif damage == "truncate":
        target.write_bytes(target.read_bytes()[:-5])
    else:
        target.write_text('{"arrays": ')
    made = _store.cached("toy", {}, small)
    np.testing.assert_array_equal(made.train_x, small().train_x)
    _store.verify(only_entry())


def test_a_flipped_byte_is_found_by_checking() -> None:
    _store.cached("toy", {}, small)
    path = only_entry().folder / "train_x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(_store.DamagedError, match=r"train_x\.npy.*sha256"):
        _store.verify(only_entry())


def test_an_array_of_another_shape_is_not_taken_for_the_entry(cache: Path) -> None:
    _store.cached("toy", {}, small)
    path = only_entry().folder / "train_x.npy"
    np.save(path, small().train_x.reshape(6, 1, 4, 1))
    assert path.stat().st_size == (128 + 24)
    assert _store.cached("toy", {}, small).train_x.shape == (6, 1, 2, 2)


def test_no_pickle_is_ever_loaded() -> None:
    _store.cached("toy", {}, small)
    path = only_entry().folder / "train_x.npy"
    size = path.stat().st_size
    evil = b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (6,), }".ljust(127) + b"\n"
    path.write_bytes((evil + pickle.dumps([print]))[:size].ljust(size))
    np.testing.assert_array_equal(_store.cached("toy", {}, small).train_x, small().train_x)


def test_an_unwritable_cache_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="AFBS_CACHE"):
        _store.cached("toy", {}, small)


def test_without_a_choice_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFBS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(sys, "platform", "linux")
    assert _store.cache_folder() == Path("/somewhere/afbs")


def test_what_a_killed_conversion_left_is_swept_after_a_day(cache: Path) -> None:
    old, new = cache / "data" / ".new-old", cache / "data" / ".new-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    _store.cached("toy", {}, small)
    assert not old.exists()
    assert new.exists()


def test_many_processes_may_convert_at_once(cache: Path) -> None:
    script = (
        "import numpy as np\n"
        "from afbs.data._store import cached\n"
        "from afbs.types import Dataset\n"
        "y = np.zeros(2000, np.int64)\n"
        "x = np.ones((2000, 1, 8, 8), np.uint8)\n"
        "for recipe in range(10):\n"
        "    data = cached('toy', {'n': recipe}, lambda: Dataset(x, y, x, y, 1))\n"
        "    assert int(data.train_x.sum()) == 2000 * 64\n"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(4)]
    for process in crowd:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    assert len(_store.entries("toy")) == 10
    assert not list((cache / "data").glob(".*"))


def flip(path: Path) -> None:
    """Change the last byte, and leave no trace of it in the file's times."""
    facts = path.stat()
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def labels_seen_by_another_process() -> list[int]:
    script = (
        "import numpy as np\nfrom afbs.data._store import cached\nfrom afbs.types import Dataset\n"
        "x, y = np.full((6, 1, 2, 2), 1, np.uint8), np.arange(6) % 3\n"
        "print(cached('toy', {}, lambda: Dataset(x, y, x[:3], y[:3], 3, (0.5,), (0.25,))).train_y.tolist())\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    labels: list[int] = json.loads(found.stdout)
    return labels


def test_a_flipped_label_is_found_by_the_next_process_and_made_again() -> None:
    _store.cached("toy", {}, small)
    flip(only_entry().folder / "train_y.npy")
    assert labels_seen_by_another_process() == [0, 1, 2, 0, 1, 2]
    _store.verify(only_entry())


def test_a_file_that_changes_is_read_again_by_the_same_process() -> None:
    _store.cached("toy", {}, small)
    path = only_entry().folder / "train_y.npy"
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    assert _store.cached("toy", {}, small).train_y.tolist() == [0, 1, 2, 0, 1, 2]


def test_what_an_entry_says_of_itself_is_verified_too() -> None:
    _store.cached("toy", {}, small)
    path = only_entry().folder / "meta.json"
    path.write_text(path.read_text().replace('"classes": 3', '"classes": 9'))
    assert _store.cached("toy", {}, small).classes == 3


def test_a_damaged_entry_that_cannot_be_made_again_says_both() -> None:
    _store.cached("toy", {}, small)
    (only_entry().folder / "train_y.npy").unlink()

    def gone() -> Dataset:
        raise UserError("The files are not here.")

    with pytest.raises(UserError, match=r"copy of 'toy' is damaged \(.*train_y.*\)\. To make it again: The files are"):
        _store.cached("toy", {}, gone)


def test_an_entry_is_read_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    _store.cached("toy", {}, small)
    monkeypatch.setattr(_digest, "array_digest", lambda values: pytest.fail("it was read again"))
    again = _store.cached("toy", {}, refuse)
    assert len(fingerprint(again)) == 32


def test_a_fingerprint_depends_on_values_alone() -> None:
    mapped = _store.cached("toy", {}, small)
    assert fingerprint(mapped) == fingerprint(small())
    assert fingerprint(replace(mapped, train_x=mapped.train_x[::-1])) == fingerprint(small())  # all pixels are alike
    assert fingerprint(replace(mapped, train_y=mapped.train_y[::-1])) != fingerprint(small())
    assert fingerprint(replace(mapped, names=("a", "b", "c"))) == fingerprint(small())
    changed: list[dict[str, Any]] = [{"classes": 4}, {"tokens": 9}, {"owners": None}]
    changed += [{"shift": (0.4,)}, {"scale": (0.5,)}]
    changed += [{name: np.roll(getattr(mapped, name), 1)} for name in ("train_y", "test_y", "owners")]
    changed += [{"train_x": mapped.train_x + np.uint8(1)}, {"train_x": mapped.train_x.astype(np.float32)}]
    prints = {fingerprint(replace(mapped, **change)) for change in changed}
    assert len(prints | {fingerprint(mapped)}) == len(changed) + 1


def test_a_mapped_array_knows_its_file_unless_it_is_a_part_of_it() -> None:
    mapped = _store.cached("toy", {}, small).train_y
    assert file_of(mapped) == only_entry().folder / "train_y.npy"
    for other in (mapped[:3], mapped[::-1], np.array(mapped), mapped.astype(np.int32)):
        assert file_of(other) is None
    changed = np.load(only_entry().folder / "train_y.npy", mmap_mode="c")
    changed[0] = 2
    assert file_of(changed) is None


def test_an_entry_is_in_use_as_long_as_somebody_has_its_arrays() -> None:
    data = _store.cached("toy", {}, small)
    assert only_entry().in_use
    del data
    gc.collect()
    assert not only_entry().in_use
