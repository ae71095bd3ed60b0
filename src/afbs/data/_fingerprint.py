"""What tells two data sets apart."""

from __future__ import annotations

import hashlib

import numpy as np

from afbs.types import Dataset


def fingerprint(dataset: Dataset) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in ("train_x", "train_y", "test_x", "test_y"):
        array = getattr(dataset, name)
        digest.update(f"{name}{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
