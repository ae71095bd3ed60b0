"""Converted data sets on disk: plain .npy arrays that every process maps into memory and none copies.

An entry is a folder with one file an array and a `meta.json` that says what they must be, down to their digests, which
are compared once a process. It is written beside its place and renamed into it, so that a half-written entry is never
seen and two processes may convert at once. Whoever has an entry open holds a lock on it, so that it is known to be in
use; when it was last used is the time of its folder.
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
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.data._digest import ARRAYS, array_digest, file_digest
from afbs.types import Dataset, UserError

if sys.platform != "win32":
    import fcntl

_LAYOUT = 2
"""Part of every entry's name: raise it when the arrays of an old entry would be read wrongly."""
_ABANDONED = 24 * 3600.0


class DamagedError(Exception):
    """An entry is not what its `meta.json` says."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A converted data set on disk, damaged or not."""

    name: str
    folder: Path

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())

    @property
    def last_used(self) -> float:
        """In seconds since 1970."""
        return self.folder.stat().st_mtime

    @property
    def meta(self) -> Mapping[str, Any]:
        """What it says of itself; nothing if that cannot be read."""
        try:
            found = json.loads((self.folder / "meta.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_current(self) -> bool:
        """Whether this version of the package reads it; an earlier one may have left others."""
        return self.meta.get("layout") == _LAYOUT

    @property
    def in_use(self) -> bool:
        """Whether a process has it open, as far as can be known."""
        with _alone(self.folder) as alone:
            return not alone


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
    damage: Exception | None = None
    try:
        return _open(folder)
    except FileNotFoundError:
        pass
    except (OSError, DamagedError) as error:
        damage = error
    try:
        made = make()
    except UserError as error:
        if damage is None:
            raise
        raise UserError(f"The converted copy of {name!r} is damaged ({damage}). To make it again: {error}") from error
    _keep(name, recipe, made)
    return _open(folder)


def entries(name: str = "") -> list[Entry]:
    """What is in the cache, damaged or not, or what is there under one name: it may be there in several variants."""
    found = []
    for folder in sorted((cache_folder() / "data").glob("[!.]*")):
        called = folder.name.rpartition("-")[0]
        if folder.is_dir() and called and name in ("", called):
            found.append(Entry(called, folder))
    return found


def discard(entry: Entry) -> bool:
    """Remove an entry unless it is in use."""
    with _alone(entry.folder) as alone:
        if alone:
            forget(entry)
        return alone


def forget(entry: Entry) -> None:
    """Remove an entry; whoever has it open keeps it until they close it."""
    aside = Path(tempfile.mkdtemp(prefix=".old-", dir=entry.folder.parent))
    entry.folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def verify(entry: Entry) -> None:
    """Read everything and compare the checksums; a DamagedError says what is wrong."""
    for array, facts in _meta(entry.folder)["arrays"].items():
        path = entry.folder / f"{array}.npy"
        _compare(path, array_digest(np.load(path, mmap_mode="r", allow_pickle=False)), facts)


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
    lock = os.open(folder / "meta.json", os.O_RDONLY)
    try:
        if not _locked(lock, alone=False):
            raise FileNotFoundError(folder)  # it is being removed at this moment
        arrays = {array: _mapped(folder / f"{array}.npy", facts) for array, facts in meta["arrays"].items()}
    except BaseException:
        os.close(lock)
        raise
    weakref.finalize(arrays["train_x"], os.close, lock).atexit = False
    with suppress(OSError):  # somebody else's cache may be read
        os.utime(folder)
    return Dataset(
        **arrays,
        classes=meta["classes"],
        shift=tuple(meta["shift"]),
        scale=tuple(meta["scale"]),
        tokens=meta["tokens"],
        names=tuple(meta["names"]),
        owner_names=tuple(meta["owner_names"]),
    )


def _mapped(path: Path, facts: Mapping[str, Any]) -> NDArray[Any]:
    try:
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DamagedError(f"{path}: {error}") from error
    if [list(mapped.shape), str(mapped.dtype)] != [facts["shape"], facts["dtype"]]:
        raise DamagedError(f"{path}: {mapped.dtype} {mapped.shape}, expected {facts}")
    _compare(path, file_digest(path, mapped), facts)
    return mapped


def _compare(path: Path, digest: str, facts: Mapping[str, Any]) -> None:
    if digest != facts["sha256"]:
        raise DamagedError(f"{path}: the sha256 of the array is {digest}, expected {facts['sha256']}")


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether nobody has an entry open; nobody will, until this is over."""
    try:
        lock = os.open(folder / "meta.json", os.O_RDONLY)
    except OSError:
        yield True  # without it nobody can have opened the entry
        return
    try:
        yield _locked(lock, alone=True)
    finally:
        os.close(lock)


def _locked(lock: int, alone: bool) -> bool:
    """Take the lock, for oneself or with others; where a file system knows no locks nobody is in the way."""
    if sys.platform != "win32":
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


def _meta(folder: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text())
        if _seal(meta) != meta["sha256"]:
            raise DamagedError(f"{folder / 'meta.json'}: its own sha256 is {_seal(meta)}, expected {meta['sha256']}")
        for array, facts in meta["arrays"].items():
            size = (folder / f"{array}.npy").stat().st_size
            if size != facts["bytes"]:
                raise DamagedError(f"{folder / array}.npy: {size} bytes, expected {facts['bytes']}")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        if not folder.exists():
            raise FileNotFoundError(folder) from error
        raise DamagedError(str(error) if isinstance(error, OSError) else f"{folder}: {error!r}") from error
    return meta


def _seal(meta: Mapping[str, Any]) -> str:
    """A digest of everything in a `meta.json` but itself."""
    text = json.dumps({key: value for key, value in meta.items() if key != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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
            "sha256": array_digest(values),
        }
    meta = {
        "name": name,
        "layout": _LAYOUT,
        "recipe": dict(recipe),
        "classes": data.classes,
        "shift": data.shift,
        "scale": data.scale,
        "tokens": data.tokens,
        "names": data.names,
        "owner_names": data.owner_names,
        "arrays": arrays,
    }
    (folder / "meta.json").write_text(json.dumps({**meta, "sha256": _seal(meta)}, indent=1))


def _arrays(data: Dataset) -> Iterator[tuple[str, NDArray[Any]]]:
    for array in ARRAYS:
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
