"""Files as people have them: what is read, and what is said of a bad one."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from afbs.data._cifar import CifarBinary
from afbs.data._hub_files import HubParquet
from afbs.data._idx import Idx
from afbs.data._raw import Part, Published, Raw, confirm, digest
from afbs.data._tables import GlueTsv, columns
from afbs.types import UserError

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (4, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 0, 2], np.uint8)


def idx(path: Path, array: np.ndarray, magic: int | None = None, packed: bool = False) -> None:
    header = struct.pack(f">{1 + array.ndim}i", magic or 2048 + array.ndim, *array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if packed else content)


def idx_folder(folder: Path, ending: str = "") -> Path:
    for prefix in ("train", "t10k"):
        idx(folder / f"{prefix}-images-idx3-ubyte{ending}", IMAGES, packed=bool(ending))
        idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", LABELS, packed=bool(ending))
    return folder


def read(kind: Idx | CifarBinary | GlueTsv | HubParquet, folder: Path) -> Raw:
    files = kind.find(folder)
    assert files is not None
    return kind.read(files)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files_are_read_packed_or_not(tmp_path: Path, ending: str) -> None:
    raw = read(Idx(), idx_folder(tmp_path, ending))
    np.testing.assert_array_equal(raw.train[0].x, IMAGES[:, None])
    np.testing.assert_array_equal(raw.test[0].y, [3, 1, 0, 2])


def test_idx_files_may_have_a_dot_for_a_dash(tmp_path: Path) -> None:
    for path in idx_folder(tmp_path).iterdir():
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    np.testing.assert_array_equal(read(Idx(), tmp_path).train[0].y, [3, 1, 0, 2])


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    for kind in (Idx(), CifarBinary(("a.bin",), ("b.bin",)), GlueTsv(), HubParquet()):
        assert kind.find(tmp_path) is None
        assert kind.find(tmp_path / "nowhere") is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (idx_folder(tmp_path) / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match="t10k-labels-idx1-ubyte is missing"):
        Idx().find(tmp_path)


def test_a_truncated_idx_file_is_named_with_both_sizes(tmp_path: Path) -> None:
    path = idx_folder(tmp_path) / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte has 3,135 bytes of data, expected 3,136"):
        read(Idx(), tmp_path)


def test_an_idx_file_without_a_whole_header_is_named(tmp_path: Path) -> None:
    (idx_folder(tmp_path) / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08")
    with pytest.raises(UserError, match="train-images-idx3-ubyte has 3 bytes, expected at least 16"):
        read(Idx(), tmp_path)


@pytest.mark.parametrize(
    "content", [b"not gzip at all", gzip.compress(IMAGES.tobytes(), mtime=0)[:40]], ids=["not gzip", "cut short"]
)
def test_a_damaged_gz_file_is_named(tmp_path: Path, content: bytes) -> None:
    (idx_folder(tmp_path, ".gz") / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz cannot be read"):
        read(Idx(), tmp_path)


def test_swapped_images_and_labels_are_noticed(tmp_path: Path) -> None:
    idx(idx_folder(tmp_path) / "train-images-idx3-ubyte", LABELS.repeat(8))
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte .*2049, expected 2051 .*swapped"):
        read(Idx(), tmp_path)


def test_images_and_labels_must_be_equally_many(tmp_path: Path) -> None:
    idx(idx_folder(tmp_path) / "train-labels-idx1-ubyte", LABELS[:3])
    with pytest.raises(UserError, match=r"4 images, but .* 3 labels"):
        read(Idx(), tmp_path)


def test_cifar_records_are_planes_after_one_or_two_labels(tmp_path: Path) -> None:
    pictures = rng.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    fine, coarse = np.array([[7], [9]], np.uint8), np.array([[1], [2]], np.uint8)
    planes = pictures.reshape(2, -1)
    (tmp_path / "one.bin").write_bytes(np.hstack([fine, planes]).tobytes())
    (tmp_path / "two.bin").write_bytes(np.hstack([coarse, fine, planes]).tobytes())
    one = read(CifarBinary(("one.bin",), ("one.bin",)), tmp_path)
    two = read(CifarBinary(("two.bin",), ("two.bin",), label_bytes=2), tmp_path)
    for raw in (one, two):
        np.testing.assert_array_equal(raw.train[0].x, pictures)
        np.testing.assert_array_equal(raw.test[0].y, [7, 9])


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_a_cifar_file_that_is_no_whole_number_of_records_is_named(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(size))
    with pytest.raises(UserError, match=rf"a\.bin has {size:,} bytes, expected a multiple of 3,073"):
        read(CifarBinary(("a.bin",), ("a.bin",)), tmp_path)


def test_a_tsv_keeps_its_quotation_marks(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text('sentence\tlabel\n"good , bad \t1\nit \'s ok " \t0\n')
    part = read(GlueTsv(), tmp_path).train[0]
    assert list(part.x) == ['"good , bad ', "it 's ok \" "]
    assert part.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("only a sentence", "line 3: 1 columns, expected 2"),
        ("a\tb\t1", "line 3: 3 columns, expected 2"),
        ("a sentence\tpositive", "line 3: the label is 'positive', expected a whole number"),
    ],
)
def test_a_broken_tsv_line_is_named_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(f"sentence\tlabel\nfine\t1\n{line}\nfine\t0\n")
    with pytest.raises(UserError, match=rf"train\.tsv, {complaint}"):
        read(GlueTsv(), tmp_path)


def test_a_csv_with_an_unclosed_quote_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\nfine,1\n"never closed,0\n')
    with pytest.raises(UserError, match=r"a\.csv, line"):
        columns(tmp_path / "a.csv", ("text", "label"))


def test_a_table_without_the_column_lists_those_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("words,label\nfine,1\n")
    pq.write_table(pa.table({"words": ["fine"], "label": [1]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(UserError, match=r"no column 'text'; (there are|it has): words, label"):
            columns(tmp_path / name, ("text", "label"))


def png(array: np.ndarray) -> dict[str, bytes]:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return {"bytes": buffer.getvalue()}


def parquet(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"image": [png(image) for image in images], "label": labels.astype(np.int64)})
    pq.write_table(table, path)


def test_hub_files_hold_the_same_images_in_all_their_shards(tmp_path: Path) -> None:
    parquet(tmp_path / "mnist" / "train-00000-of-00002.parquet", IMAGES[:3], LABELS[:3])
    parquet(tmp_path / "mnist" / "train-00001-of-00002.parquet", IMAGES[3:], LABELS[3:])
    parquet(tmp_path / "mnist" / "test-00000-of-00001.parquet", IMAGES, LABELS)
    raw = read(HubParquet(), tmp_path)
    np.testing.assert_array_equal(np.concatenate([np.asarray(part.x) for part in raw.train]), IMAGES[:, None])
    np.testing.assert_array_equal(np.concatenate([part.y for part in raw.train]), [3, 1, 0, 2])


def test_coloured_hub_images_become_planes(tmp_path: Path) -> None:
    pictures = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    for split in ("train", "test"):
        parquet(tmp_path / f"{split}-00000-of-00001.parquet", pictures, LABELS[:2])
    np.testing.assert_array_equal(read(HubParquet(), tmp_path).train[0].x, pictures.transpose(0, 3, 1, 2))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    parquet(tmp_path / "train-00000-of-00002.parquet", IMAGES, LABELS)
    parquet(tmp_path / "test-00000-of-00001.parquet", IMAGES, LABELS)
    with pytest.raises(UserError, match=r"train-00001-of-00002\.parquet is missing"):
        HubParquet().find(tmp_path)


def test_a_truncated_parquet_file_is_named(tmp_path: Path) -> None:
    for split in ("train", "test"):
        parquet(tmp_path / f"{split}-00000-of-00001.parquet", IMAGES, LABELS)
    path = tmp_path / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"test-00000-of-00001\.parquet is no Parquet file"):
        read(HubParquet(), tmp_path)


def test_an_image_that_is_none_is_named_by_its_row(tmp_path: Path) -> None:
    for split in ("train", "test"):
        table = pa.table({"image": [png(IMAGES[0]), {"bytes": b"no image"}], "label": [0, 1]})
        pq.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    with pytest.raises(UserError, match=r"00000-of-00001\.parquet, row 1: this is no image"):
        read(HubParquet(), tmp_path)


def test_images_of_unequal_size_are_named_by_the_row(tmp_path: Path) -> None:
    for split in ("train", "test"):
        table = pa.table({"image": [png(IMAGES[0]), png(IMAGES[1, :14])], "label": [0, 1]})
        pq.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    with pytest.raises(UserError, match=r"row 1: an image of \(1, 14, 28\), the first is of \(1, 28, 28\)"):
        read(HubParquet(), tmp_path)


PART = Part((Path("a.bin"),), IMAGES[:, None], LABELS.astype(np.int64))
PUBLISHED = Published((1, 1, 1, 1), (1, 1, 1, 1), (1, 28, 28), {"train": digest(PART), "test": digest(PART)})


def test_the_published_samples_are_accepted_in_any_order() -> None:
    turned = Part(PART.files, IMAGES[::-1, None], PART.y[::-1])
    confirm("toy", Raw([turned], [PART]), PUBLISHED)


def test_the_digest_of_a_split_is_that_of_its_parts() -> None:
    parts = [Part((Path(f"{i}.bin"),), IMAGES[i : i + 2, None], PART.y[i : i + 2]) for i in (0, 2)]
    confirm("toy", Raw(parts, [PART]), PUBLISHED)


@pytest.mark.parametrize(
    ("x", "y", "complaint"),
    [
        (IMAGES[:3, None], PART.y[:3], "the train split has 3 samples, expected 4"),
        (IMAGES[:, None], np.array([3, 1, 0, 4]), "a train label is 4, expected 0 to 3"),
        (IMAGES[:, None], np.array([3, 1, 0, 3]), "0 samples of class 2, expected 1"),
        (IMAGES[:, None, :14], PART.y, r"images of \(1, 14, 28\) .* expected \(1, 28, 28\)"),
        (255 - IMAGES[:, None], PART.y, r"not the train samples that were published \(a\.bin\)"),
        (IMAGES[:, None], PART.y[[1, 0, 2, 3]], "not the train samples that were published"),
    ],
)
def test_other_samples_are_refused(x: np.ndarray, y: np.ndarray, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        confirm("toy", Raw([Part(PART.files, x, y)], [PART]), PUBLISHED)


def test_the_one_changed_file_of_several_is_named() -> None:
    halves = [Part((Path(f"{i}.bin"),), IMAGES[i : i + 2, None], PART.y[i : i + 2]) for i in (0, 2)]
    published = Published(
        PUBLISHED.train, PUBLISHED.test, PUBLISHED.shape, {**PUBLISHED.digests, "0.bin": digest(halves[0]), "2.bin": 0}
    )
    published.digests["2.bin"] = digest(halves[1])  # type: ignore[index]
    halves[1] = Part(halves[1].files, 255 - np.asarray(halves[1].x), halves[1].y)
    with pytest.raises(UserError, match=r"published \(2\.bin\)"):
        confirm("toy", Raw(halves, [PART]), published)
