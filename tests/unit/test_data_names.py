"""Labels and owners as people have them, and what they were called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from afbs.data import Arrays
from afbs.data.npz import Npz
from afbs.data.text import Text
from afbs.types import UserError

X = np.random.default_rng(0).normal(size=(20, 3))
PETS = np.array(["dog", "cat"] * 10)
NUMBERS = np.arange(20) % 2


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("labels", "first_two", "names"),
    [
        (pd.Series(PETS), [1, 0], ("cat", "dog")),
        (pd.Series(PETS, dtype="string"), [1, 0], ("cat", "dog")),
        (PETS.astype(object), [1, 0], ("cat", "dog")),
        (PETS.tolist(), [1, 0], ("cat", "dog")),
        (PETS.astype("S"), [1, 0], ("cat", "dog")),
        (pd.Series(PETS, dtype="category"), [1, 0], ("cat", "dog")),
        (pd.Categorical(PETS, ["dog", "cat", "bird"]), [0, 1], ("dog", "cat", "bird")),
        (pd.CategoricalIndex(PETS, ["dog", "cat"]), [0, 1], ("dog", "cat")),
        (pd.Series(NUMBERS == 0), [1, 0], ("False", "True")),
        (NUMBERS == 0, [1, 0], ("False", "True")),
        (pd.Series(NUMBERS == 0, dtype="boolean"), [1, 0], ("False", "True")),
        (pd.Series(NUMBERS + 3).astype("category"), [0, 1], ("3", "4")),
        (pd.Series(NUMBERS), [0, 1], ()),
        (pd.Series(NUMBERS, dtype="Int64"), [0, 1], ()),
        (pd.Series(NUMBERS.astype(float)), [0, 1], ()),
        (pd.DataFrame({"label": NUMBERS}), [0, 1], ()),
        (torch.from_numpy(NUMBERS), [0, 1], ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_labels_may_be_anything_that_names_a_class(labels: Any, first_two: list[int], names: tuple[str, ...]) -> None:
    data = Arrays(pd.DataFrame(X), labels).load()
    assert data.train_y[:2].tolist() == first_two
    assert data.names == names
    assert data.classes == (len(names) or 2)
    assert json.loads(json.dumps(data.names)) == list(names)


def test_names_of_both_splits_are_put_in_one_order() -> None:
    data = Arrays(X, PETS, X, np.where(PETS == "dog", "dog", "bird")).load()
    assert data.names == ("bird", "cat", "dog")
    assert (data.train_y[:2].tolist(), data.test_y[:2].tolist()) == ([2, 1], [2, 0])
    categories = Arrays(X, pd.Categorical(PETS, ["dog", "cat"]), X, pd.Categorical(PETS, ["cat", "dog", "ant"])).load()
    assert categories.names == ("dog", "cat", "ant")
    assert categories.train_y.tolist() == categories.test_y.tolist() == [0, 1] * 10


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (pd.Series([None, *PETS[1:]]), "training labels: that of sample 0 is missing"),
        (pd.Categorical([None, *PETS[1:]], ["cat", "dog"]), "training labels: that of sample 0 is missing"),
        (np.where(np.arange(20) == 7, np.nan, NUMBERS), "training labels: that of sample 7 is missing"),
        (pd.Series([pd.NA, *NUMBERS[1:]], dtype="Int64"), "training labels: that of sample 0 is missing"),
        (pd.Series([1, "dog"] * 10), "training labels are of type int and str"),
        (pd.Series([True, 3] * 10, dtype=object), "training labels are of type bool and int"),
        (np.array([[1], [2, 3]] * 10, dtype=object), "training labels are of type list"),
        (np.full(20, np.inf), "training labels are of type float64; expected whole numbers or names"),
        (np.full(20, 1e300), "training labels are of type float64; expected whole numbers or names"),
        (np.full(20, 2**64 - 1, np.uint64), "too large"),
        (np.zeros(20, "datetime64[s]"), "training labels are of type datetime64"),
        (torch.zeros(20, requires_grad=True), "training labels cannot be read as an array"),
    ],
)
def test_labels_that_name_nothing_are_refused(labels: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Arrays(X, labels).load()


def test_a_list_of_numbers_and_names_is_all_names() -> None:
    mixed: Any = [1, "dog"] * 10  # numpy makes text of both
    assert Arrays(X, mixed).load().names == ("1", "dog")


def test_numbers_in_one_split_and_names_in_the_other_are_refused() -> None:
    with pytest.raises(UserError, match="the labels of one split are numbers and those of the other are names"):
        Arrays(X, NUMBERS, X, PETS).load()


def test_owners_keep_their_names_and_are_numbered_without_gaps() -> None:
    # Of each class the fifth is held back: samples 8, 9, 18, 19. Bob has no other.
    owners = np.array(["zoe"] * 8 + ["bob"] * 2 + ["ann"] * 10)
    data = Arrays(X, NUMBERS, owners=owners).load()
    assert data.owners is not None
    assert data.owner_names == ("ann", "zoe")
    assert data.owners.tolist() == [1] * 8 + [0] * 8
    numbered = Arrays(X, NUMBERS, owners=pd.Series([70] * 10 + [5] * 10)).load()
    assert numbered.owner_names == ("5", "70")


def test_files_keep_names_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", train_x=X, train_y=PETS, owners=PETS)
    data = Npz(str(tmp_path / "own.npz")).load()
    assert data.names == data.owner_names == ("cat", "dog")
    rows = "".join(f"some words,{pet},{'ann' if place < 10 else 'bob'}\n" for place, pet in enumerate(PETS))
    (tmp_path / "own.csv").write_bytes(b"\xef\xbb\xbf" + f"text,label,who\n{rows}".encode())
    texts = Text(str(tmp_path / "own.csv"), owner="who").load()
    assert texts.names == ("cat", "dog")
    assert texts.owner_names == ("ann", "bob")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (1e300, r"training samples: sample 7 has the value 1e\+300, which is beyond what float32 holds"),
        (-1e39, r"training samples: sample 7 has the value -1e\+39, which is beyond what float32 holds"),
        (np.nan, "training samples: sample 7 has the value nan, which is not finite"),
        (-np.inf, "training samples: sample 7 has the value -inf, which is not finite"),
    ],
)
def test_values_that_float32_cannot_hold_are_refused(value: float, complaint: str) -> None:
    samples = X.copy()
    samples[7, 2] = value
    with pytest.raises(UserError, match=complaint):
        Arrays(samples, NUMBERS).load()
    with pytest.raises(UserError, match=complaint.replace("training", "test")):
        Arrays(X, NUMBERS, samples, NUMBERS).load()


def test_a_feature_too_small_to_divide_by_is_constant() -> None:
    data = Arrays(np.full((20, 1), 1e-44) * (1 + NUMBERS[:, None]), NUMBERS).load()
    assert data.scale == (1.0,)


def test_splits_of_different_types_are_refused() -> None:
    with pytest.raises(UserError, match="training samples are uint8, test samples float32"):
        Arrays(np.zeros((20, 3), np.uint8), NUMBERS, X, NUMBERS).load()
