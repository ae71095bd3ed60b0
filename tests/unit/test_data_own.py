"""A user's own arrays, images, texts and Datasets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from afbs.data import Arrays, from_torch
from afbs.data.images import Images
from afbs.data.npz import Npz
from afbs.data.text import Text
from afbs.types import UserError

rng = np.random.default_rng(0)
PIXELS = rng.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(20) % 2


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))


def npz(folder: Path, **arrays: Any) -> Npz:
    np.savez(folder / "own.npz", **arrays)
    return Npz(str(folder / "own.npz"))


def test_arrays_without_a_test_split_hold_back_every_fifth_of_each_class(tmp_path: Path) -> None:
    data = npz(tmp_path, train_x=PIXELS, train_y=LABELS, owners=np.arange(20) % 4).load()
    # of class 0 (samples 0, 2, 4, ...) the fifth is 8, then 18; of class 1 it is 9, then 19
    np.testing.assert_array_equal(data.test_x, PIXELS[[8, 9, 18, 19]].transpose(0, 3, 1, 2))
    assert data.test_y.tolist() == [0, 1, 0, 1]
    assert len(data.train_y) == 16
    assert data.owners is not None
    assert data.owners.tolist() == [i % 4 for i in range(20) if i not in (8, 9, 18, 19)]


def test_images_are_standardised_by_channel(tmp_path: Path) -> None:
    data = npz(tmp_path, train_x=PIXELS, train_y=LABELS, test_x=PIXELS, test_y=LABELS).load()
    np.testing.assert_allclose(data.shift, (PIXELS / 255).mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(data.scale, (PIXELS / 255).std(axis=(0, 1, 2)))
    assert data.train_x.dtype == np.uint8
    assert data.owners is None


def test_grey_images_get_a_channel_and_features_their_own_scale(tmp_path: Path) -> None:
    grey = npz(tmp_path, train_x=PIXELS[..., 0], train_y=LABELS).load()
    assert grey.train_x.shape[1:] == (1, 6, 5)
    features = rng.normal(3, 2, (20, 7))
    rows = Arrays(features, LABELS, features, LABELS).load()
    assert rows.train_x.dtype == np.float32
    np.testing.assert_allclose(rows.shift, features.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(rows.scale, features.std(axis=0), rtol=1e-5)


def test_a_constant_feature_does_not_divide_by_zero() -> None:
    data = Arrays(np.ones((20, 2)), LABELS).load()
    assert data.scale == (1.0, 1.0)


def test_whole_numbers_are_token_ids() -> None:
    rows = rng.integers(0, 50, (20, 9))
    data = Arrays(rows, LABELS, rows, LABELS).load()
    assert data.tokens == rows.max() + 1
    assert data.train_x.dtype == np.int32


def test_names_are_put_in_order_and_numbers_stay() -> None:
    named = Arrays(PIXELS, np.where(LABELS == 0, "dog", "cat")).load()
    assert named.classes == 2
    assert named.train_y[:2].tolist() == [1, 0]
    gap = Arrays(PIXELS, LABELS * 4).load()
    assert gap.classes == 5
    assert gap.train_y[:2].tolist() == [0, 4]


def test_a_class_that_only_the_test_split_has_counts() -> None:
    data = Arrays(PIXELS, LABELS, PIXELS, LABELS + 1).load()
    assert data.classes == 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train_y": LABELS[:-1]}, "20 training samples but 19 training labels"),
        ({"train_y": LABELS - 1}, "a label is -1"),
        ({"train_y": LABELS * 10**6}, "would make 1,000,001 classes"),
        ({"train_y": LABELS + 0.5}, "labels are of type float64; expected whole numbers or names"),
        ({"train_y": np.stack([LABELS, LABELS], 1)}, r"labels have shape \(20, 2\)"),
        ({"train_x": PIXELS.astype(complex)}, "of type complex128"),
        ({"train_x": np.where(PIXELS > 128, np.nan, PIXELS)}, "sample 0 has the value nan, which is not finite"),
        ({"train_x": PIXELS.astype(np.int64)}, r"int64 of shape \(20, 6, 5, 3\): bytes \(uint8\) are pixels"),
        ({"train_x": np.arange(20)}, r"training samples have shape \(20,\)"),
        ({"test_x": PIXELS}, "test samples need test labels"),
        ({"test_x": PIXELS[:, :5], "test_y": LABELS}, r"shape \(3, 6, 5\), test samples \(3, 5, 5\)"),
        ({"test_x": PIXELS[:5], "test_y": LABELS[:4]}, "5 test samples but 4 test labels"),
        ({"owners": np.arange(3)}, "20 training samples but 3 owners"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    arrays = {"train_x": PIXELS, "train_y": LABELS, **changes}
    with pytest.raises(UserError, match=complaint):
        npz(tmp_path, **arrays).load()
    with pytest.raises(UserError, match=complaint):
        Arrays(**arrays).load()


def test_classes_too_small_to_hold_any_back_need_a_test_split() -> None:
    with pytest.raises(UserError, match="at least five"):
        Arrays(PIXELS[:4], LABELS[:4]).load()


def test_an_npz_file_without_the_array_lists_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no array 'train_y'; it has: train_x, labels"):
        npz(tmp_path, train_x=PIXELS, labels=LABELS).load()
    source = npz(tmp_path, train_x=PIXELS, labels=LABELS)
    assert len(Npz(source.path, train_y="labels").load().train_y) == 16


def test_an_npz_file_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the array 'train_y' holds Python objects .* nothing is unpickled .*astype"):
        npz(tmp_path, train_x=PIXELS, train_y=np.array([None] * 20)).load()
    (tmp_path / "own.npz").write_bytes(pickle.dumps({"train_x": PIXELS}))
    with pytest.raises(UserError, match=r"is no archive, such as `numpy\.savez` writes\.$"):
        Npz(str(tmp_path / "own.npz")).load()


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut short", b"nothing of the kind", b""])
def test_a_damaged_npz_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"`data\.path`: .*own\.npz is no \.npz file, or it is damaged"):
        Npz(str(tmp_path / "own.npz")).load()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*nowhere\.npz"):
        Npz(str(tmp_path / "nowhere.npz")).load()


def test_a_changed_file_is_converted_again(tmp_path: Path) -> None:
    npz(tmp_path, train_x=PIXELS, train_y=LABELS).load()
    data = npz(tmp_path, train_x=PIXELS[:10], train_y=LABELS[:10]).load()
    assert len(data.train_y) == 8


def image_folder(root: Path) -> Path:
    for place, pixels in enumerate(PIXELS):
        folder = root / ("cat" if place % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{place:02d}.png")
    return root


def test_a_folder_for_each_class_is_read_in_alphabetical_order(tmp_path: Path) -> None:
    data = Images(str(image_folder(tmp_path / "pets"))).load()
    # cats are the odd ones: the fifth is 9, then 19; of the dogs 8, then 18
    np.testing.assert_array_equal(data.test_x, PIXELS[[9, 19, 8, 18]].transpose(0, 3, 1, 2))
    assert data.test_y.tolist() == [0, 0, 1, 1]
    assert data.classes == 2


def test_train_and_test_folders_are_used_where_they_are(tmp_path: Path) -> None:
    image_folder(tmp_path / "pets" / "train")
    image_folder(tmp_path / "pets" / "test")
    data = Images(str(tmp_path / "pets"), channels=1, size=4).load()
    assert data.train_x.shape == data.test_x.shape == (20, 1, 4, 4)


def test_image_files_may_have_owners(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "pets")
    lines = [f"{'cat' if i % 2 else 'dog'}/{i:02d}.png,{'ann' if i < 10 else 'bob'}" for i in range(20)]
    (root / "owners.csv").write_text("file,owner\n" + "\n".join(lines) + "\n")
    data = Images(str(root), owners="owners.csv").load()
    assert data.owners is not None
    # the cats 1 3 5 7 | 11 13 15 17, then the dogs 0 2 4 6 | 10 12 14 16
    assert data.owners.tolist() == [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4
    (root / "owners.csv").write_text("file,owner\n" + "\n".join(lines[1:]) + "\n")
    with pytest.raises(UserError, match=r"does not say whose dog/00\.png is"):
        Images(str(root), owners="owners.csv").load()


def test_images_of_unequal_size_need_a_size(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "pets")
    Image.fromarray(PIXELS[0][:4]).save(root / "dog" / "00.png")
    with pytest.raises(UserError, match=r"00\.png has 4 × 5 pixels.*`data\.size`"):
        Images(str(root)).load()
    assert Images(str(root), size=6).load().train_x.shape[1:] == (3, 6, 6)


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "pets")
    (root / "dog" / "00.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"dog/00\.png is no image"):
        Images(str(root)).load()


def test_a_folder_without_images_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folders of images"):
        Images(str(tmp_path)).load()
    (image_folder(tmp_path / "pets") / "bird").mkdir()
    with pytest.raises(UserError, match=r"there is no image in .*bird"):
        Images(str(tmp_path / "pets")).load()
    with pytest.raises(UserError, match="there is no folder"):
        Images(str(tmp_path / "nowhere")).load()


TEXTS = ["good film", "bad film", "very good", "very bad", "so good", "so bad", "good", "bad", "good one", "bad one"]
MOODS = ["praise", "blame"] * 5


def test_texts_come_from_csv_and_parquet_alike(tmp_path: Path) -> None:
    rows = "".join(
        f'"{text}, he said",{mood},{i % 3}\n' for i, (text, mood) in enumerate(zip(TEXTS, MOODS, strict=True))
    )
    (tmp_path / "own.csv").write_text("text,label,who\n" + rows)
    said = [f"{text}, he said" for text in TEXTS]
    pq.write_table(
        pa.table({"text": said, "label": MOODS, "who": [i % 3 for i in range(10)]}), tmp_path / "own.parquet"
    )
    one = Text(str(tmp_path / "own.csv"), owner="who").load()
    two = Text(str(tmp_path / "own.parquet"), owner="who").load()
    for array in ("train_x", "train_y", "test_x", "test_y", "owners"):
        np.testing.assert_array_equal(getattr(one, array), getattr(two, array))
    assert one.classes == 2
    assert one.train_y.tolist() == [1, 0] * 4
    assert one.tokens == two.tokens == int(one.train_x.max()) + 1


def test_a_test_file_is_used_where_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\ngood,1\nbad,0\n")
    (tmp_path / "b.csv").write_text("text,label\nbad,0\nstrange,1\n")
    data = Text(str(tmp_path / "a.csv"), test=str(tmp_path / "b.csv"), ngrams=1).load()
    assert data.train_x.tolist() == [[3], [2]]
    assert data.test_x.tolist() == [[2], [1]]
    assert data.train_y.tolist() == [1, 0]


def test_an_empty_cell_is_named_by_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None], "label": [0, 1]}), tmp_path / "own.parquet")
    with pytest.raises(UserError, match="row 2: 'text' is empty"):
        Text(str(tmp_path / "own.parquet")).load()


class Pairs(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, size: int = 20):
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 2, 2), float(place)), place % 2


def test_a_torch_dataset_is_read_in_order() -> None:
    data = from_torch(Pairs(), Pairs(4), owners=np.arange(20) // 5).load()
    np.testing.assert_array_equal(data.train_x[:, 0, 0, 0], np.arange(20))
    assert data.train_y.tolist() == [0, 1] * 10
    assert data.test_y.tolist() == [0, 1, 0, 1]
    assert data.owners is not None
    assert data.owners.tolist() == np.repeat(np.arange(4), 5).tolist()


@pytest.mark.parametrize(
    ("dataset", "complaint"),
    [
        ([torch.zeros(3)], "item 0 is a Tensor, expected a pair"),
        ([(torch.zeros(3), 0), (torch.zeros(4), 1)], r"sample 1 has shape \(4,\), sample 0 has \(3,\)"),
        (iter([]), "expected a map-style Dataset"),
        ([], "the Dataset is empty"),
    ],
)
def test_a_dataset_of_something_else_is_refused(dataset: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        from_torch(dataset)


def test_other_arrays_are_not_taken_from_the_cache() -> None:
    one = Arrays(PIXELS, LABELS).load()
    two = Arrays(255 - PIXELS, LABELS).load()
    np.testing.assert_array_equal(one.train_x, 255 - two.train_x)
