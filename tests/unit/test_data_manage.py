"""Published data sets: found, downloaded, imported, checked. A tiny one stands in for the real ones."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import shutil
import tarfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from afbs import registry
from afbs.cli import app
from afbs.data import Arrays, _official, manage
from afbs.data._about import About
from afbs.data._cifar import CifarBinary
from afbs.data._hub import HubFile
from afbs.data._hub_files import HubParquet
from afbs.data._official import Official, images, load
from afbs.data._raw import Part, Published, digest
from afbs.data._store import entries
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
LABELS = np.array([2, 0, 1])
WHOLE = Part((), PIXELS, LABELS)


@dataclass(frozen=True)
class Toy(Source):
    """Three pictures."""

    about: ClassVar[About] = About(3, 3, 3, "MIT", "somewhere")
    official: ClassVar[Official] = Official(
        name="toy",
        published=Published((1, 1, 1), (1, 1, 1), (3, 32, 32), {"train": digest(WHOLE), "test": digest(WHOLE)}),
        formats=(CifarBinary(("train.bin",), ("test.bin",)), HubParquet()),
        folders=("toy-binary", "toy"),
        hub="someone/toy",
    )

    def load(self) -> Dataset:
        return load(self.official, {}, lambda raw: images(raw, (0.0,) * 3, (1.0,) * 3, 3))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFBS_DATA", raising=False)
    monkeypatch.setattr(manage, "part", lambda kind, name: Toy if name == "toy" else registry.find(kind, name))
    monkeypatch.setattr(manage, "names", lambda kind: ["digits", "npz", "toy"])
    return tmp_path


def binary(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    records = np.hstack([LABELS[:, None].astype(np.uint8), PIXELS.reshape(3, -1)])
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(records.tobytes())
    return folder


def parquet(folder: Path) -> Path:
    import io

    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    cells = []
    for picture in PIXELS:
        buffer = io.BytesIO()
        Image.fromarray(picture.transpose(1, 2, 0)).save(buffer, "PNG")
        cells.append({"bytes": buffer.getvalue()})
    for split in ("train", "test"):
        pq.write_table(pa.table({"image": cells, "label": LABELS}), folder / f"{split}-00000-of-00001.parquet")
    return folder


@dataclass
class FakeHub:
    """A hub that is a folder. It can be cut off, or give bad bytes."""

    folder: Path
    cut_after: int = 100
    garble: bool = False
    fetched: list[str] = field(default_factory=list)

    def files(self, repository: str) -> list[HubFile]:
        assert repository == "someone/toy"
        found = [HubFile("README.md", 5, "")]
        for path in sorted(self.folder.iterdir()):
            content = path.read_bytes()
            found.append(HubFile(f"data/{path.name}", len(content), hashlib.sha256(content).hexdigest()))
        return found

    def fetch(self, repository: str, file: HubFile, folder: Path) -> Path:
        if len(self.fetched) >= self.cut_after:
            raise ConnectionError("the line went dead")
        self.fetched.append(file.path)
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        content = (self.folder / Path(file.path).name).read_bytes()
        target.write_bytes(content[:-1] + b"?" if self.garble else content)
        return target


def test_files_are_looked_for_where_the_user_says_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = binary(place / "cache" / "files" / "toy")
    assert _official.find(Toy.official).folder == kept
    monkeypatch.setenv("AFBS_DATA", str(place / "data"))
    chosen = binary(place / "data" / "toy-binary")
    assert _official.find(Toy.official).folder == chosen


def test_official_files_come_before_the_hubs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_DATA", str(place))
    parquet(place / "toy")
    assert isinstance(_official.find(Toy.official).format, HubParquet)
    binary(place / "toy")
    assert isinstance(_official.find(Toy.official).format, CifarBinary)


def test_both_formats_give_the_same_data_set(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    for number, write in enumerate((binary, parquet)):
        monkeypatch.setenv("AFBS_CACHE", str(place / f"cache{number}"))
        monkeypatch.setenv("AFBS_DATA", str(place / str(number)))
        write(place / str(number) / "toy")
        loaded.append(Toy().load())
    for array in ("train_x", "train_y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(loaded[0], array), getattr(loaded[1], array))
    np.testing.assert_array_equal(loaded[0].train_x, PIXELS)


def test_what_was_converted_is_used_without_the_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_DATA", str(place))
    folder = binary(place / "toy")
    Toy().load()
    shutil.rmtree(folder)
    np.testing.assert_array_equal(Toy().load().train_x, PIXELS)


def test_without_files_the_message_says_how_to_get_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"`afbs data get toy`.*`afbs data import toy FOLDER`.*toy-binary.*train\.bin"):
        Toy().load()
    monkeypatch.setenv("AFBS_DATA", str(place / "nowhere"))
    with pytest.raises(UserError, match=r"\$AFBS_DATA is .*nowhere, which is no folder"):
        Toy().load()


def test_a_download_is_checked_and_converted(place: Path) -> None:
    hub = FakeHub(parquet(place / "hub"))
    folder = manage.get("toy", hub)
    assert folder == place / "cache" / "files" / "toy"
    assert hub.fetched == ["data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet"]
    np.testing.assert_array_equal(Toy().load().train_y, LABELS)


def test_a_download_that_was_cut_off_goes_on_where_it_was(place: Path) -> None:
    files = parquet(place / "hub")
    with pytest.raises(UserError, match=r"cannot be reached \(the line went dead\).*`afbs data import toy FOLDER`"):
        manage.get("toy", FakeHub(files, cut_after=1))
    second = FakeHub(files)
    manage.get("toy", second)
    assert second.fetched == ["data/train-00000-of-00001.parquet"]


def test_a_download_with_wrong_bytes_is_refused_and_removed(place: Path) -> None:
    files = parquet(place / "hub")
    with pytest.raises(UserError, match=r"the sha256 is [0-9a-f]{64}, expected [0-9a-f]{64}"):
        manage.get("toy", FakeHub(files, garble=True))
    assert not list((place / "cache").rglob("*.parquet"))
    manage.get("toy", FakeHub(files))


def test_files_are_imported_from_a_folder_or_the_archive_they_came_in(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = binary(place / "downloads" / "toy-binary")
    with tarfile.open(place / "toy.tar.gz", "w:gz") as archive:
        archive.add(folder, "toy-binary")
    with zipfile.ZipFile(place / "toy.zip", "w") as packed:
        for path in folder.iterdir():
            packed.write(path, f"toy-binary/{path.name}")
    for number, source in enumerate((folder, folder.parent, place / "toy.tar.gz", place / "toy.zip")):
        monkeypatch.setenv("AFBS_CACHE", str(place / f"cache{number}"))
        kept = manage.take("toy", source)
        assert sorted(path.name for path in kept.iterdir()) == ["test.bin", "train.bin"]
        np.testing.assert_array_equal(Toy().load().train_x, PIXELS)


def test_importing_something_else_is_refused_and_changes_nothing(place: Path) -> None:
    folder = binary(place / "downloads")
    damaged = bytearray((folder / "train.bin").read_bytes())
    damaged[100] ^= 1
    (folder / "train.bin").write_bytes(damaged)
    with pytest.raises(UserError, match=r"not the train samples that were published"):
        manage.take("toy", folder)
    assert not (place / "cache").exists()
    (place / "text.txt").write_text("hello")
    with pytest.raises(UserError, match=r"text\.txt is no folder and no archive .*: neither zip nor tar, [^\n]*\.$"):
        manage.take("toy", place / "text.txt")
    with pytest.raises(UserError, match="has no files of 'toy'; expected"):
        manage.take("toy", place)
    with pytest.raises(UserError, match="no file or folder"):
        manage.take("toy", place / "nowhere")


def test_an_archive_that_is_cut_short_or_leads_elsewhere_is_not_unpacked(place: Path) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        archive.add(binary(place / "downloads"), "toy-binary")
    (place / "cut.tar.gz").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    with pytest.raises(UserError, match=r"cut\.tar\.gz is an archive that is damaged or cut short: [^\n]*\.$"):
        manage.take("toy", place / "cut.tar.gz")
    with tarfile.open(place / "elsewhere.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../elsewhere"))
    with pytest.raises(UserError, match=r"elsewhere\.tar is not unpacked, .*'\.\./elsewhere'"):
        manage.take("toy", place / "elsewhere.tar")


def test_checking_reads_the_files_and_the_converted_copy(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_DATA", str(place))
    folder = binary(place / "toy")
    Toy().load()
    first, second = manage.check("toy")
    assert "the published samples" in first
    assert "right checksums" in second
    (folder / "test.bin").write_bytes((folder / "test.bin").read_bytes()[:-1])
    with pytest.raises(UserError, match=r"test\.bin has .* cut short"):
        manage.check("toy")


def test_checking_removes_a_damaged_copy(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_DATA", str(place))
    binary(place / "toy")
    Toy().load()
    path = entries("toy")[0].folder / "train_x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"train_x\.npy: .*sha256.* The converted copy was removed"):
        manage.check("toy")
    assert entries("toy") == []
    np.testing.assert_array_equal(Toy().load().train_x, PIXELS)


def test_the_list_says_what_is_here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> dict[str, str]:
        return {line.name: line.state for line in manage.listed()}

    assert states() == {"digits": "ready", "toy": "missing", "npz": "yours"}
    monkeypatch.setenv("AFBS_DATA", str(place))
    binary(place / "toy")
    assert states()["toy"] == "files"
    Toy().load()
    assert states()["toy"] == "ready"


def test_there_is_nothing_to_get_for_what_ships_or_is_the_users_own() -> None:
    with pytest.raises(UserError, match="'digits': it comes with the package"):
        manage.get("digits", FakeHub(Path()))
    with pytest.raises(UserError, match="'npz': it reads files of your own"):
        manage.take("npz", Path())


def test_the_commands_print_what_was_done(place: Path) -> None:
    run = CliRunner().invoke
    listing = run(app, ["data", "list"])
    assert listing.exit_code == 0
    assert "afbs data get toy" in listing.output
    done = run(app, ["data", "import", "toy", str(binary(place / "downloads"))])
    assert done.exit_code == 0, done.output
    assert "toy is ready" in done.output
    assert "toy is fine" in run(app, ["data", "check", "toy"]).output
    assert "digits is fine" in run(app, ["data", "check", "digits"]).output


def own_arrays(value: float) -> Dataset:
    return Arrays(np.full((20, 3), value), np.arange(20) % 2).load()


def test_copies_of_a_users_own_arrays_are_listed_and_removed() -> None:
    run = CliRunner().invoke
    assert manage.copies() == []
    first, second = own_arrays(1.0), own_arrays(2.0)
    assert [(copy.samples, copy.of, copy.in_use) for copy in manage.copies()] == [
        (20, "arrays given in Python", True),
        (20, "arrays given in Python", True),
    ]
    listing = run(app, ["data", "list"]).output
    assert all(copy.id in listing for copy in manage.copies())
    del second
    gc.collect()
    kept = next(copy for copy in manage.copies() if copy.in_use)
    cleaned = run(app, ["data", "clean", "own"])
    assert cleaned.exit_code == 0, cleaned.output
    assert f"{kept.id}: kept, it is in use" in cleaned.output
    assert [copy.id for copy in manage.copies()] == [kept.id]
    assert first.train_x.max() == 1.0


def test_cleaning_goes_by_name_by_id_and_by_age(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_DATA", str(place))
    binary(place / "toy")
    Toy().load()
    own_arrays(1.0)
    own_arrays(2.0)
    gc.collect()
    one, other = (copy.id for copy in manage.copies())
    assert [removal.what for removal in manage.clean([one])] == [one]
    assert manage.clean(["own"], unused_for=60.0) == []
    long_ago = time.time() - 3600
    os.utime(place / "cache" / "data" / other, (long_ago, long_ago))
    assert [removal.what for removal in manage.clean(["own"], unused_for=60.0)] == [other]
    assert len(entries("toy")) == 1
    assert len(manage.clean(["toy"])) == 1
    assert entries() == []
    with pytest.raises(UserError, match=r"Nothing in the cache is called 'tyo'. `afbs data list` says"):
        manage.clean(["tyo"])


def test_files_are_removed_only_when_that_is_asked_for(place: Path) -> None:
    folder = manage.take("toy", binary(place / "downloads"))
    gc.collect()
    manage.clean(["all"])
    assert folder.is_dir()
    assert [removal.what for removal in manage.clean(["all"], files=True)] == [str(folder)]
    assert not folder.exists()


def test_a_damaged_copy_is_listed_and_can_be_removed(place: Path) -> None:
    own_arrays(1.0)
    gc.collect()
    (entry,) = entries()
    for text in ("{", "[]", '{"arrays": 3, "recipe": []}'):
        (entry.folder / "meta.json").write_text(text)
        assert [copy.samples for copy in manage.copies()] == [0]
    assert len(manage.clean(["own"])) == 1
