"""A user's own arrays, checked and brought into the form that the clients want."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._arrays import channel_moments, every_fifth
from afbs.data._columns import Column, as_array, classes, column, distinct, numbers
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_COLOURS = (1, 3, 4)


def dataset(
    where: str,
    train_x: Any,
    train_y: Any,
    test_x: Any = None,
    test_y: Any = None,
    owners: Any = None,
    tokens: int = 0,
    are_numbers: bool = False,
) -> Dataset:
    """A data set from arrays; without a test split every fifth sample of each class is for testing.

    Images may be (N, height, width), (N, channels, height, width) or (N, height, width, channels); other samples may
    have any shape. Labels and owners may be whole numbers or names. Whole numbers other than bytes are token ids.
    Labels that `are_numbers` are to be predicted, one or a row a sample; every fifth sample is then for testing.
    """
    read = numbers if are_numbers else column
    if (test_x is None) != (test_y is None):
        raise UserError(f"{where}: test samples need test labels and the other way round; only one of them is there.")
    train, labels = samples(f"{where}: training samples", train_x), read(f"{where}: training labels", train_y)
    _same_length(where, "training samples", train, "training labels", labels)
    whose = None
    if owners is not None:
        whose = column(f"{where}: owners", owners)
        _same_length(where, "training samples", train, "owners", whose)
    if test_x is None:
        chosen, held = every_fifth(labels.codes if isinstance(labels, Column) else np.zeros(len(labels), np.int64))
        test, test_labels = train[held], labels[held]
        train, labels = train[chosen], labels[chosen]
        whose = None if whose is None else whose[chosen]
    else:
        test, test_labels = samples(f"{where}: test samples", test_x), read(f"{where}: test labels", test_y)
        _same_length(where, "test samples", test, "test labels", test_labels)
    if not len(test):
        raise UserError(f"{where}: no sample is left for testing; every class needs at least five, or a test split.")
    if train.shape[1:] != test.shape[1:]:
        raise UserError(f"{where}: training samples have shape {train.shape[1:]}, test samples {test.shape[1:]}.")
    if train.dtype != test.dtype:
        raise UserError(f"{where}: training samples are {train.dtype}, test samples {test.dtype}; expected the same.")
    if isinstance(labels, Column) and isinstance(test_labels, Column):
        train_y, test_y, number, names = classes(where, labels, test_labels)
    else:
        train_y, test_y, number, names = labels, test_labels, 0, ()
        if train_y.shape[1:] != test_y.shape[1:]:
            raise UserError(f"{where}: training labels are {train_y.shape[1:]} each, test labels {test_y.shape[1:]}.")
    ids, owner_names = (None, ()) if whose is None else distinct(whose)
    made = Dataset(train, train_y, test, test_y, number, owners=ids, names=names, owner_names=owner_names)
    if train.dtype == np.int32:
        return replace(made, tokens=_tokens(where, train, test, tokens))
    shift, scale = channel_moments(train)
    return replace(made, shift=shift, scale=scale)


def file_recipe(source: Source, *paths: Path) -> Mapping[str, Any]:
    """What a conversion depends on: the source's settings and which files, of which size, changed when."""
    files = []
    for path in paths:
        if not path.is_file():
            raise UserError(f"`data`: there is no file {path}.")
        facts = path.stat()
        files.append([str(path.resolve()), facts.st_size, facts.st_mtime_ns])
    return {"settings": asdict(source), "files": files}  # type: ignore[call-overload]


def samples(what: str, values: Any) -> NDArray[Any]:
    """Samples of a type and shape that the clients know: bytes, float32 or, as token ids, int32."""
    x = as_array(what, values)
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
        return x.astype(np.int32, copy=False)
    raise UserError(f"{what} are of type {x.dtype}; expected uint8, floating or whole numbers.")


def _checked_values(what: str, x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        converted = x.astype(np.float32, copy=False)
    finite = np.isfinite(converted)
    if not finite.all():
        place = tuple(int(axis) for axis in np.argwhere(~finite)[0])
        value = x[place]
        why = "is not finite" if not np.isfinite(value) else "is beyond what float32 holds (3.4e38)"
        raise UserError(f"{what}: sample {place[0]} has the value {value:g}, which {why}.")
    return converted


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[3] in _COLOURS and x.shape[1] not in _COLOURS:
        return x.transpose(0, 3, 1, 2)
    return x


def _same_length(where: str, what: str, x: NDArray[Any], other: str, y: Column | NDArray[Any]) -> None:
    if len(x) != len(y):
        raise UserError(f"{where}: {len(x):,} {what} but {len(y):,} {other}.")


def _tokens(where: str, train: NDArray[Any], test: NDArray[Any], tokens: int) -> int:
    most = int(max(train.max(), test.max())) + 1
    if tokens and most > tokens:
        raise UserError(f"{where}: a token id is {most - 1}, though there are only {tokens} tokens.")
    return tokens or most
