"""Labels and owners as people have them: numbers, names, truth values, categories; arrays, lists, or pandas' Series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.types import UserError

_LARGEST = 2**53
"""Beyond it floating numbers are no longer counted one by one."""


@dataclass(frozen=True, slots=True)
class Column:
    """One whole number a sample. Where they stand for `names`, a number is the place of its name.

    `ordered` says that the order of the names was given, as pandas' categories have one; otherwise it is alphabetical.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...] | None = None
    ordered: bool = False

    def __getitem__(self, chosen: NDArray[np.int64]) -> Column:
        return replace(self, codes=self.codes[chosen])

    def __len__(self) -> int:
        return len(self.codes)


def as_array(what: str, values: Any) -> NDArray[Any]:
    """Anything that numpy can read; whatever it raises becomes a sentence."""
    try:
        return np.asarray(values)
    except Exception as error:  # tensors with a history or on another device, ragged lists, a user's own class
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{what} cannot be read as an array ({reason}).") from error


def column(what: str, values: Any) -> Column:
    """One value a sample; a UserError says which is missing or of no use."""
    if isinstance(values, Column):
        return values
    if getattr(getattr(values, "dtype", None), "name", "") == "category":
        return _categories(what, values)
    array = as_array(what, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise UserError(f"{what} have shape {array.shape}; expected one a sample.")
    if array.dtype.kind in "OT":
        array = _alike(what, array)
    if array.dtype.kind == "b":
        return Column(array.astype(np.int64), ("False", "True"), ordered=True)
    if array.dtype.kind in "US":
        return _named(array)
    return Column(_whole(what, array))


def numbers(what: str, values: Any) -> NDArray[np.float32]:
    """What is to be predicted: one number or a row of them a sample."""
    array = as_array(what, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise UserError(f"{what} are {array.dtype} of shape {array.shape}; expected one number or a row of them each.")
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = array.astype(np.float32)
    _refuse_missing(what, ~np.isfinite(found).reshape(len(found), -1).all(axis=1))
    return found


def distinct(owners: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """0, 1, 2 ... for the values that occur, in their order, and what they were called."""
    found, numbers = np.unique(owners.codes, return_inverse=True)
    names = (str(code) if owners.names is None else owners.names[code] for code in found.tolist())
    return numbers.reshape(-1).astype(np.int64), tuple(names)


def classes(
    where: str, train: Column, test: Column
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, tuple[str, ...]]:
    """Labels from 0 on, how many classes there are, and their names. Numbers stay as they are and have none."""
    if train.names is None and test.names is None:
        return train.codes, test.codes, _count(where, np.concatenate([train.codes, test.codes])), ()
    if train.names is None or test.names is None:
        raise UserError(f"{where}: the labels of one split are numbers and those of the other are names.")
    names: tuple[str, ...] = tuple(dict.fromkeys([*train.names, *test.names]))
    if not (train.ordered or test.ordered):
        names = tuple(sorted(names))
    place = {name: number for number, name in enumerate(names)}
    parts = (np.array([place[name] for name in each.names or ()], np.int64)[each.codes] for each in (train, test))
    return next(parts), next(parts), len(names), names


def _count(where: str, labels: NDArray[np.int64]) -> int:
    if labels.min() < 0:
        raise UserError(f"{where}: a label is {labels.min()}; numbers must be 0, 1, 2 ...")
    count = int(labels.max()) + 1
    if count > max(1000, len(labels)):
        raise UserError(
            f"{where}: a label is {count - 1}, which would make {count:,} classes of {len(labels):,} samples; "
            "numbers must be 0, 1, 2 ..., or `data.numbers` = true if they are what is to be predicted."
        )
    return count


def _categories(what: str, values: Any) -> Column:
    """pandas' own: a Series or Index of them, or the bare Categorical."""
    held = getattr(values, "cat", values)
    codes = np.asarray(held.codes, np.int64)
    _refuse_missing(what, codes < 0)
    return Column(codes, tuple(str(name) for name in held.categories), ordered=True)


def _named(array: NDArray[Any]) -> Column:
    known, codes = np.unique(array, return_inverse=True)
    names = (name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in known.tolist())
    return Column(codes.reshape(-1).astype(np.int64), tuple(names))


def _whole(what: str, array: NDArray[Any]) -> NDArray[np.int64]:
    if np.issubdtype(array.dtype, np.floating):
        _refuse_missing(what, np.isnan(array))
        if not (np.abs(array) < _LARGEST).all() or (array != np.round(array)).any():
            raise UserError(
                f"{what} are of type {array.dtype}; expected whole numbers or names. Where they are to be predicted as "
                "numbers, set `task.name` = 'regression' and `data.numbers` = true."
            )
    elif not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"{what} are of type {array.dtype}; expected whole numbers or names.")
    elif array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
        raise UserError(f"{what}: one is {array.max()}, which is too large.")
    return array.astype(np.int64)


def _alike(what: str, array: NDArray[Any]) -> NDArray[Any]:
    """Python's own values as an array of one type, if they are all of one kind."""
    import pandas as pd

    _refuse_missing(what, np.asarray(pd.isna(array), bool).reshape(len(array), -1).any(axis=1))
    values = array.tolist()
    for kinds in ((bool, np.bool_), (str, bytes), (int, np.integer), (int, float, np.integer, np.floating)):
        if all(isinstance(value, kinds) for value in values) and (bool in kinds or not _has_truth(values)):
            try:
                return np.array(values)
            except (ValueError, OverflowError):
                break
    found = sorted({type(value).__name__ for value in values})
    raise UserError(f"{what} are of type {' and '.join(found) or 'object'}; expected whole numbers or names.")


def _has_truth(values: list[Any]) -> bool:
    return any(isinstance(value, bool) for value in values)


def _refuse_missing(what: str, missing: Any) -> None:
    if missing.any():
        raise UserError(f"{what}: that of sample {int(missing.argmax())} is missing.")
