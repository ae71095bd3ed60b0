"""The published data sets, where their files are here: counts, means, and every way of having them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from afbs.data import _official
from afbs.data.cifar10 import Cifar10
from afbs.data.cifar100 import Cifar100
from afbs.data.mnist import Mnist
from afbs.data.sst2 import Sst2
from afbs.types import Dataset

ROOT = Path(os.environ.get("AFBS_DATA", ""))


def needs(folder: str) -> pytest.MarkDecorator:
    there = bool(os.environ.get("AFBS_DATA")) and (ROOT / folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"there is no {folder} in $AFBS_DATA")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFBS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def moments(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unit = images.astype(np.float32) / 255
    return unit.mean(axis=(0, 2, 3), dtype=np.float64), unit.std(axis=(0, 2, 3), dtype=np.float64)


def assert_same(one: Dataset, two: Dataset) -> None:
    for array in ("train_x", "train_y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(one, array), getattr(two, array))


def write_hub_files(folder: Path, column: str, label: str, splits: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Images as the hub has them: PNG files in a Parquet table."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from PIL import Image

    folder.mkdir(parents=True)
    for split, (images, labels) in splits.items():
        cells = []
        for image in images:
            buffer = io.BytesIO()
            Image.fromarray(image.squeeze(0) if len(image) == 1 else image.transpose(1, 2, 0)).save(
                buffer, "PNG", compress_level=0
            )
            cells.append({"bytes": buffer.getvalue(), "path": None})
        pq.write_table(pa.table({column: cells, label: labels}), folder / f"{split}-00000-of-00001.parquet")


@needs("mnist")
def test_mnist_has_the_known_counts_and_mean() -> None:
    data = Mnist().load()
    assert np.bincount(data.train_y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.test_y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    mean, deviation = moments(data.train_x)
    assert mean == pytest.approx([0.1307], abs=5e-5)
    assert deviation == pytest.approx([0.3081], abs=5e-5)
    assert data.train_y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert isinstance(data.train_x, np.memmap)


@needs("SST-2")
def test_sst2_has_the_known_counts() -> None:
    data = Sst2().load()
    assert np.bincount(data.train_y).tolist() == [29_780, 37_569]
    assert np.bincount(data.test_y).tolist() == [428, 444]
    assert data.tokens == 50_002
    assert data.train_x.max() == 50_001
    assert data.train_x.dtype == np.int32
    # a test sentence has 95 n-grams at most: nothing of it is cut
    assert (data.test_x != 0).sum(axis=1).max() == 95


@needs("SST-2")
def test_sst2_from_the_hubs_files_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    official = Sst2(vocabulary=2000, ngrams=1).load()
    raw = _official.read(Sst2.official, _official.find(Sst2.official))
    (tmp_path / "stanfordnlp" / "sst2" / "data").mkdir(parents=True)
    for split, parts in (("train", raw.train), ("validation", raw.test)):
        table = pa.table({"idx": range(len(parts[0].y)), "sentence": list(parts[0].x), "label": parts[0].y})
        pq.write_table(table, tmp_path / "stanfordnlp/sst2/data" / f"{split}-00000-of-00001.parquet")
    monkeypatch.setenv("AFBS_DATA", str(tmp_path))
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    assert_same(official, Sst2(vocabulary=2000, ngrams=1).load())


@pytest.mark.long
@needs("mnist")
def test_mnist_from_the_hubs_files_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official = Mnist().load()
    splits = {"train": (official.train_x, official.train_y), "test": (official.test_x, official.test_y)}
    write_hub_files(tmp_path / "ylecun" / "mnist" / "mnist", "image", "label", splits)
    monkeypatch.setenv("AFBS_DATA", str(tmp_path))
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    assert_same(official, Mnist().load())


@pytest.mark.long
@needs("cifar-10-batches-bin")
def test_cifar10_has_the_known_counts_and_means() -> None:
    data = Cifar10().load()
    assert np.bincount(data.train_y).tolist() == [5000] * 10
    assert np.bincount(data.test_y).tolist() == [1000] * 10
    mean, deviation = moments(data.train_x)
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert deviation == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-5)
    assert data.train_y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]


@pytest.mark.long
@needs("cifar-10-batches-bin")
def test_cifar10_from_the_hubs_files_is_the_same_though_batches_are_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = Cifar10().load()
    order = np.concatenate([np.arange(10_000) + 10_000 * batch for batch in (3, 2, 1, 4, 0)])
    splits = {"train": (official.train_x[order], official.train_y[order]), "test": (official.test_x, official.test_y)}
    write_hub_files(tmp_path / "cifar10" / "plain_text", "img", "label", splits)
    monkeypatch.setenv("AFBS_DATA", str(tmp_path))
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    assert_same(official, Cifar10().load())


@pytest.mark.long
@needs("cifar-100-binary")
def test_cifar100_has_the_known_counts_and_means() -> None:
    data = Cifar100().load()
    assert np.bincount(data.train_y).tolist() == [500] * 100
    assert np.bincount(data.test_y).tolist() == [100] * 100
    mean, deviation = moments(data.train_x)
    assert mean == pytest.approx([0.5071, 0.4865, 0.4409], abs=5e-5)
    assert deviation == pytest.approx([0.2673, 0.2564, 0.2762], abs=5e-5)
