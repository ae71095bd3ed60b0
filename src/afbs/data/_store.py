"""Converted data sets on disk: plain .npy arrays that every process maps into memory and none copies.

An entry is a folder with one file an array and a `meta.json` that says what they must be. It is written beside its
place and renamed into it, so that a half-written entry is never seen and two processes may convert at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.types import Dataset, UserError

_LAYOUT = 1
"""Part of every entry's name: raise it when the arrays of an old entry would be read wrongly."""
_ARRAYS = ("train_x", "train_y", "test_x", "test_y", "owners")
_ABANDONED = 24 * 3600.0


class DamagedError(Exception):
    """An entry is not what its `meta.json` says."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A converted data set on disk."""

    name: str
    folder: Path

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())


def cache_folder() -> Path:
    """`$AFBS_CACHE`, or a folder of ours where this system keeps its users' caches."""
    if chosen := os.environ.get("AFBS_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "afbs"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "afbs"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afbs"


def cached(name: str, recipe: Mapping[str, Any], make: Callable[[], Dataset]) -> Dataset:
    """The data set `make` gives, converted once. `recipe` is all that its content depends on besides its name."""
    folder = _place(name, recipe)
    try:
        return _open(folder)
    except (OSError, DamagedError):
        _keep(name, recipe, make())
        return _open(folder)


def entries(name: str) -> list[Entry]:
    """What is in the cache under this name, damaged or not; it may be there in several variants."""
    found = []
    for folder in sorted((cache_folder() / "data").glob(f"{name}-*")):
        if folder.name.rpartition("-")[0] == name:
            found.append(Entry(name, folder))
    return found


def forget(entry: Entry) -> None:
    """Remove an entry; whoever has it open keeps it until they close it."""
    aside = Path(tempfile.mkdtemp(prefix=".old-", dir=entry.folder.parent))
    entry.folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def verify(entry: Entry) -> None:
    """Read everything and compare the checksums; a DamagedError says what is wrong."""
    for array, facts in _meta(entry.folder)["arrays"].items():
        path = entry.folder / f"{array}.npy"
        digest = _sha256(np.load(path, mmap_mode="r", allow_pickle=False))
        if digest != facts["sha256"]:
            raise DamagedError(f"{path}: the sha256 of the array is {digest}, expected {facts['sha256']}")


def _keep(name: str, recipe: Mapping[str, Any], data: Dataset) -> None:
    """Write an entry, or leave the good one that is there by then."""
    folder = _place(name, recipe)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        beside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            _write(beside, name, recipe, data)
            _move(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"The cache in {cache_folder()} cannot be written ({error.strerror or error}). "
            "Make room there, or set $AFBS_CACHE to a folder that can be."
        ) from error


def _place(name: str, recipe: Mapping[str, Any]) -> Path:
    text = json.dumps({"layout": _LAYOUT, **recipe}, sort_keys=True)
    return cache_folder() / "data" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _open(folder: Path) -> Dataset:
    meta = _meta(folder)
    arrays: dict[str, NDArray[Any]] = {}
    for array, facts in meta["arrays"].items():
        try:
            mapped = np.load(folder / f"{array}.npy", mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DamagedError(f"{folder / array}.npy: {error}") from error
        if [list(mapped.shape), str(mapped.dtype)] != [facts["shape"], facts["dtype"]]:
            raise DamagedError(f"{folder / array}.npy: {mapped.dtype} {mapped.shape}, expected {facts}")
        arrays[array] = mapped
    return Dataset(
        **arrays,
        classes=meta["classes"],
        shift=tuple(meta["shift"]),
        scale=tuple(meta["scale"]),
        tokens=meta["tokens"],
    )


def _meta(folder: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text())
        for array, facts in meta["arrays"].items():
            size = (folder / f"{array}.npy").stat().st_size
            if size != facts["bytes"]:
                raise DamagedError(f"{folder / array}.npy: {size} bytes, expected {facts['bytes']}")
    except (ValueError, KeyError, OSError) as error:
        if not folder.exists():
            raise FileNotFoundError(folder) from error
        raise DamagedError(f"{folder}: {error!r}") from error
    return meta


def _write(folder: Path, name: str, recipe: Mapping[str, Any], data: Dataset) -> None:
    arrays = {}
    for array, values in _arrays(data):
        path = folder / f"{array}.npy"
        with path.open("wb") as file:
            np.save(file, np.ascontiguousarray(values), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        arrays[array] = {
            "shape": list(values.shape),
            "dtype": str(values.dtype),
            "bytes": path.stat().st_size,
            "sha256": _sha256(values),
        }
    meta = {
        "name": name,
        "recipe": dict(recipe),
        "classes": data.classes,
        "shift": data.shift,
        "scale": data.scale,
        "tokens": data.tokens,
        "arrays": arrays,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1))


def _arrays(data: Dataset) -> Iterator[tuple[str, NDArray[Any]]]:
    for array in _ARRAYS:
        values = getattr(data, array)
        if values is not None:
            yield array, values


def _move(beside: Path, folder: Path) -> None:
    beside.chmod(0o755)
    for _ in range(10):
        try:
            beside.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        try:
            _open(folder)
            return  # somebody else was quicker, with the same content
        except (OSError, DamagedError):
            aside = Path(tempfile.mkdtemp(prefix=".old-", dir=folder.parent))
            try:
                folder.replace(aside)
            except FileNotFoundError:
                continue
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    raise OSError(f"{folder} is being written by too many at once")


def _sweep(parent: Path) -> None:
    """Throw away what killed conversions left behind."""
    for left in (*parent.glob(".new-*"), *parent.glob(".old-*")):
        if left.exists() and time.time() - left.stat().st_mtime > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _sha256(values: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(values), 4096):
        digest.update(np.ascontiguousarray(values[start : start + 4096]).tobytes())
    return digest.hexdigest()
