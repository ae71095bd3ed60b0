"""Which data these are: digests of arrays, read once a process, and of whole data sets."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.types import Dataset

ARRAYS = ("train_x", "train_y", "test_x", "test_y", "owners")
_ROWS = 4096
_read: dict[Path, tuple[tuple[int, ...], str]] = {}


def array_digest(values: NDArray[Any]) -> str:
    """The sha256 of an array's values, row by row."""
    digest = hashlib.sha256()
    for start in range(0, len(values), _ROWS):
        digest.update(np.ascontiguousarray(values[start : start + _ROWS]).tobytes())
    return digest.hexdigest()


def file_digest(path: Path, values: NDArray[Any]) -> str:
    """That of an array which is the whole of a file. It is read once a process, unless the file changes."""
    facts = path.stat()
    stamp = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    if path not in _read or _read[path][0] != stamp:
        _read[path] = (stamp, array_digest(values))
    return _read[path][1]


def file_of(values: NDArray[Any]) -> Path | None:
    """The `.npy` file that holds exactly these values, if they are mapped from one: others need no copy of it."""
    if not isinstance(values, np.memmap) or values.filename is None or values.mode not in ("r", "r+"):
        return None
    path = Path(values.filename)
    if path.suffix != ".npy" or not path.is_file() or not values.flags.c_contiguous:
        return None
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    same = (whole.shape, whole.dtype, whole.offset) == (values.shape, values.dtype, values.offset)
    return path if same and whole.flags.c_contiguous else None


def fingerprint(dataset: Dataset) -> str:
    """The same for two data sets that train alike, on any machine. What the cache holds is read once a process.

    It covers the arrays, the number of classes and tokens, and how samples are scaled; not what anything is called.
    """
    digest = hashlib.sha256()
    facts = (dataset.classes, tuple(dataset.shift), tuple(dataset.scale), dataset.tokens)
    digest.update(repr(facts).encode())
    for name in ARRAYS:
        values = getattr(dataset, name)
        if values is not None:
            path = file_of(values)
            content = array_digest(np.asarray(values)) if path is None else file_digest(path, values)
            digest.update(f"\n{name} {values.dtype.str} {values.shape} {content}".encode())
    return digest.hexdigest()[:32]
