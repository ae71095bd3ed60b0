"""A user's own arrays, checked and brought into the form that the clients want."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._arrays import channel_moments, every_fifth
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_COLOURS = (1, 3, 4)


def dataset(
    where: str,
    train_x: NDArray[Any],
    train_y: NDArray[Any],
    test_x: NDArray[Any] | None = None,
    test_y: NDArray[Any] | None = None,
    owners: NDArray[Any] | None = None,
    tokens: int = 0,
) -> Dataset:
    """A data set from arrays; without a test split every fifth sample of each class is for testing.

    Images may be (N, height, width), (N, channels, height, width) or (N, height, width, channels); other samples may
    have any shape. Labels and owners may be whole numbers or names. Whole numbers other than bytes are token ids.
    """
    if (test_x is None) != (test_y is None):
        raise UserError(f"{where}: test samples need test labels and the other way round; only one of them is there.")
    train, names = _samples(f"{where}: training samples", train_x), _labels(f"{where}: training labels", train_y)
    _same_length(where, "training samples", train, "training labels", names)
    owner_ids = None
    if owners is not None:
        owner_ids = numbered(_labels(f"{where}: owners", owners))
        _same_length(where, "training samples", train, "owners", owner_ids)
    if test_x is None or test_y is None:
        labels, classes = _classes(where, names, names)
        chosen, held = every_fifth(labels)
        test, test_labels = train[held], labels[held]
        train, labels = train[chosen], labels[chosen]
        owner_ids = None if owner_ids is None else owner_ids[chosen]
    else:
        test, test_names = _samples(f"{where}: test samples", test_x), _labels(f"{where}: test labels", test_y)
        _same_length(where, "test samples", test, "test labels", test_names)
        labels, classes = _classes(where, names, np.concatenate([names, test_names]))
        test_labels, _ = _classes(where, test_names, np.concatenate([names, test_names]))
    if not len(test):
        raise UserError(f"{where}: no sample is left for testing; every class needs at least five, or a test split.")
    if train.shape[1:] != test.shape[1:]:
        raise UserError(f"{where}: training samples have shape {train.shape[1:]}, test samples {test.shape[1:]}.")
    if train.dtype == np.int32:
        return _token_rows(where, train, labels, test, test_labels, classes, owner_ids, tokens)
    shift, scale = channel_moments(train)
    return Dataset(train, labels, test, test_labels, classes, shift, scale, owners=owner_ids)


def numbered(names: NDArray[Any]) -> NDArray[np.int64]:
    """0, 1, 2 ... for the different values, in their order."""
    return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64)


def file_recipe(source: Source, *paths: Path) -> Mapping[str, Any]:
    """What a conversion depends on: the source's settings and which files, of which size, changed when."""
    files = []
    for path in paths:
        if not path.is_file():
            raise UserError(f"`data`: there is no file {path}.")
        facts = path.stat()
        files.append([str(path.resolve()), facts.st_size, facts.st_mtime_ns])
    return {"settings": asdict(source), "files": files}  # type: ignore[call-overload]


def _samples(what: str, x: NDArray[Any]) -> NDArray[Any]:
    x = np.asarray(x)
    if x.ndim < 2 or not x.size:
        raise UserError(f"{what} have shape {x.shape}; expected one row or image a sample.")
    if x.dtype == np.bool_:
        x = x.astype(np.uint8) * np.uint8(255)
    if x.dtype == np.uint8 or np.issubdtype(x.dtype, np.floating):
        return _checked_values(what, _channels_first(x))
    if np.issubdtype(x.dtype, np.integer):
        if x.ndim != 2 or x.min() < 0 or x.max() >= 2**31:
            raise UserError(
                f"{what} are {x.dtype} of shape {x.shape}: bytes (uint8) are pixels, floating numbers are features, "
                "and other whole numbers are token ids from 0 on, a row a sample."
            )
        return x.astype(np.int32)
    raise UserError(f"{what} are of type {x.dtype}; expected uint8, floating or whole numbers.")


def _checked_values(what: str, x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype == np.uint8:
        return x
    if not np.isfinite(x).all():
        raise UserError(f"{what}: sample {int(np.argwhere(~np.isfinite(x))[0][0])} holds a value that is not finite.")
    return x.astype(np.float32)


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[3] in _COLOURS and x.shape[1] not in _COLOURS:
        return x.transpose(0, 3, 1, 2)
    return x


def _labels(what: str, y: NDArray[Any]) -> NDArray[Any]:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise UserError(f"{what} have shape {y.shape}; expected one a sample.")
    if np.issubdtype(y.dtype, np.floating) and (y == np.round(y)).all():
        y = y.astype(np.int64)
    if not (np.issubdtype(y.dtype, np.integer) or y.dtype.kind in "US"):
        raise UserError(f"{what} are of type {y.dtype}; expected whole numbers or names.")
    return y


def _classes(where: str, names: NDArray[Any], all_names: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Labels from 0 on, and how many classes there are. Numbers stay as they are, names are put in order."""
    if names.dtype.kind in "US":
        known = np.unique(all_names)
        return np.searchsorted(known, names).astype(np.int64), len(known)
    if all_names.min() < 0:
        raise UserError(f"{where}: a label is {all_names.min()}; numbers must be 0, 1, 2 ...")
    classes = int(all_names.max()) + 1
    if classes > max(1000, len(all_names)):
        raise UserError(
            f"{where}: a label is {classes - 1}, which would make {classes:,} classes of {len(all_names):,} samples; "
            "numbers must be 0, 1, 2 ..."
        )
    return names.astype(np.int64), classes


def _same_length(where: str, what: str, x: NDArray[Any], other: str, y: NDArray[Any]) -> None:
    if len(x) != len(y):
        raise UserError(f"{where}: {len(x):,} {what} but {len(y):,} {other}.")


def _token_rows(
    where: str,
    train: NDArray[Any],
    labels: NDArray[np.int64],
    test: NDArray[Any],
    test_labels: NDArray[np.int64],
    classes: int,
    owners: NDArray[np.int64] | None,
    tokens: int,
) -> Dataset:
    most = int(max(train.max(), test.max())) + 1
    if tokens and most > tokens:
        raise UserError(f"{where}: a token id is {most - 1}, though there are only {tokens} tokens.")
    return Dataset(train, labels, test, test_labels, classes, tokens=tokens or most, owners=owners)
