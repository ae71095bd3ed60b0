"""Who has which data: what a user's own sources and partitions may give, and what clients are called."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from afbs.config import load
from afbs.data import Arrays
from afbs.interfaces import Partition, Source
from afbs.population import populate
from afbs.types import Dataset, Split, UserError
from tiny import TINY

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2
PLAIN = Dataset(X.astype(np.float32), Y, X[:10].astype(np.float32), Y[:10], 2)
SMALL = {**TINY, "run": {**TINY["run"], "in_flight": 1}, "algorithm": {"name": "fedasync"}}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))


@dataclass(frozen=True, eq=False)
class Given(Source):
    data: Any = None

    def load(self) -> Dataset:
        return self.data


@dataclass(frozen=True, eq=False)
class Dealt(Partition):
    given: Any

    def split(self, labels: Any, owners: Any, key: Any) -> Split:
        return self.given


def spoilt(value: float, dtype: Any) -> Dataset:
    samples = X.astype(dtype)
    samples[33, 1] = value
    return replace(PLAIN, train_x=samples, test_x=X[:10].astype(dtype))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ((X, Y), r"Given\.load must give an afbs\.types\.Dataset, got a tuple"),
        (None, r"Given\.load must give an afbs\.types\.Dataset, got nothing"),
        (replace(PLAIN, train_x=X.tolist()), "`train_x` must be a numpy array, got a list"),
        (replace(PLAIN, train_y=cast(Any, Y.tolist())), "`train_y` must be a numpy array, got a list"),
        (replace(PLAIN, test_x=X[:10].astype(np.uint8)), r"samples are float32 of shape \(3,\), test samples uint8 of"),
        (replace(PLAIN, test_x=PLAIN.test_x[:, :2]), r"test samples float32 of shape \(2,\); expected the same"),
        (
            replace(PLAIN, scale=(0.0,)),
            "`scale` must be one number or one for each of 3 channels, all finite and not 0",
        ),
        (replace(PLAIN, shift=(np.nan,)), "`shift` must be one number or one for each of 3 channels, all finite"),
        (replace(PLAIN, shift=(0.0, 0.0)), "`shift` must be one number or one for each of 3 channels"),
        (spoilt(1e300, np.float64), "train sample 33 has a value that is not finite as float32"),
        (spoilt(np.nan, np.float32), "train sample 33 has a value that is not finite as float32"),
    ],
)
def test_a_source_that_gives_no_data_set_is_refused(data: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        populate(load(SMALL, {"data": Given(data), "partition": {"clients": 5}}))


@pytest.mark.parametrize(
    ("split", "complaint"),
    [
        ([np.arange(3)], r"Dealt\.split must give an afbs\.types\.Split, got a list"),
        (Split([]), "there are no clients"),
        (Split([np.arange(3), np.array([], np.int64)]), "client 1 has no samples"),
        (Split([np.arange(3), np.array([3, 40])]), "client 1 has sample 40; they go from 0 to 39"),
        (Split([np.array([-1])]), "client 0 has sample -1"),
        (Split([np.array([0.5])]), "the samples of client 0 must be an array of whole numbers"),
        (Split([[0, 1]]), "the samples of client 0 must be an array of whole numbers"),  # type: ignore[list-item]
    ],
)
def test_a_partition_that_gives_no_split_is_refused(split: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        populate(load(SMALL, {"data": Given(PLAIN), "partition": Dealt(split)}))


def test_natural_clients_are_called_as_their_owners() -> None:
    data = Arrays(X, Y, X, Y, owners=np.array(["zoe", "ann", "bob", "ann"] * 10))
    natural = populate(load(SMALL, {"data": data, "partition": "natural"}))
    assert natural.owner_names() == ["ann", "bob", "zoe"]
    assert [client.examples for client in natural.clients] == [20, 10, 10]
    mixed = populate(load(SMALL, {"data": data, "partition": {"name": "iid", "clients": 4}}))
    assert mixed.owner_names() is None
    nobody = populate(load(SMALL, {"data": Arrays(X, Y), "partition": {"name": "iid", "clients": 4}}))
    assert nobody.owner_names() is None


def test_a_validation_share_is_set_aside_and_no_client_has_it() -> None:
    population = populate(load(SMALL, {"data": Given(PLAIN), "partition.clients": 3, "evaluation.validation": 0.25}))
    theirs = np.concatenate(population.split.indices)
    rows = {tuple(row) for row in population.dataset.train_x[theirs].tolist()}
    aside = {tuple(row) for row in population.dataset.test_x.tolist()}
    assert (len(rows), len(aside)) == (30, 10)
    assert not rows & aside
    assert rows | aside == {tuple(row) for row in PLAIN.train_x.tolist()}
    where = {tuple(row): label for row, label in zip(PLAIN.train_x.tolist(), PLAIN.train_y.tolist(), strict=True)}
    labels = population.dataset.test_y.tolist()
    assert [where[tuple(row)] for row in population.dataset.test_x.tolist()] == labels


def test_with_a_validation_share_the_test_set_may_be_anything() -> None:
    overrides = {"partition.clients": 3, "evaluation.validation": 0.25}
    poisoned = replace(PLAIN, test_x=np.full((5, 3), np.nan, np.float32), test_y=np.full(5, -7))
    ours, other = (populate(load(SMALL, {**overrides, "data": Given(data)})) for data in (PLAIN, poisoned))
    assert [part.tolist() for part in ours.split.indices] == [part.tolist() for part in other.split.indices]
    assert ours.dataset.test_x.tobytes() == other.dataset.test_x.tobytes()
    with pytest.raises(UserError, match="label of test sample 0 is -7"):
        populate(load(SMALL, {"data": Given(poisoned)}))


def test_a_natural_partition_keeps_its_owners_when_some_samples_are_set_aside() -> None:
    owners = np.arange(40) // 10
    overrides = {"partition": "natural", "evaluation.validation": 0.25, "data": Given(replace(PLAIN, owners=owners))}
    population = populate(load({**SMALL, "partition": {}}, overrides))
    assert [set(owners[part]) for part in population.split.indices] == [{0}, {1}, {2}, {3}]


def test_a_validation_share_must_leave_something_on_both_sides() -> None:
    with pytest.raises(UserError, match=r"`evaluation\.validation` = 0\.001 of 40 training samples is 0"):
        populate(load(SMALL, {"data": Given(PLAIN), "evaluation.validation": 0.001}))
