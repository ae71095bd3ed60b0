"""What `afbs data` does: say what is here, get it, take it from a folder, check it, remove it."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afbs.data._about import About
from afbs.data._hub import Hub, HuggingFace, download
from afbs.data._hub_files import HubParquet
from afbs.data._official import Found, Official, by_hand, files_folder, find, find_in, read
from afbs.data._store import DamagedError, Entry, cache_folder, discard, entries, forget, verify
from afbs.interfaces import Source
from afbs.registry import find as part
from afbs.registry import names, summary
from afbs.types import UserError

__all__ = [
    "Copy",
    "Hub",
    "HuggingFace",
    "Listed",
    "Removal",
    "cache_folder",
    "check",
    "clean",
    "copies",
    "get",
    "listed",
    "take",
]


@dataclass(frozen=True, slots=True)
class Copy:
    """A converted copy of a user's own data, in the cache. `id` is what `afbs data clean` calls it."""

    id: str
    of: str
    samples: int
    bytes: int
    last_used: float
    in_use: bool


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed from the cache, or why not."""

    what: str
    bytes: int
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of `afbs data list`. `about` is missing for a user's own data."""

    name: str
    summary: str
    state: str
    where: str
    bytes: int
    about: About | None
    how: str


def listed() -> list[Listed]:
    """All data sets there are, those that are here first."""
    lines = [_line(name) for name in names("data")]
    return sorted(lines, key=lambda line: (("ready", "files", "missing", "yours").index(line.state), line.name))


def copies() -> list[Copy]:
    """Users' own data in the cache, those that were used last first. Nothing needs them but speed."""
    published = _published()
    found = []
    for entry in entries():
        if entry.name in published:
            continue
        try:
            found.append(_copy(entry))
        except OSError:  # it was removed just now
            continue
    return sorted(found, key=lambda copy: -copy.last_used)


def clean(what: Sequence[str], unused_for: float = 0.0, files: bool = False) -> list[Removal]:
    """Remove converted copies: of data sets by name, single ones by id, `own` for all of the user's, or `all`.

    Only what has not been used for `unused_for` seconds. With `files` also what was downloaded or imported. What some
    process has open is kept.
    """
    published = _published()
    chosen = [entry for entry in entries() if _is_meant(entry, what, published)]
    known = {"all", "own", *published, *names("data"), *(entry.folder.name for entry in chosen)}
    if unknown := [word for word in what if word not in known]:
        raise UserError(f"Nothing in the cache is called {unknown[0]!r}. `afbs data list` says what is there.")
    now = time.time()
    removed = [_removed(entry) for entry in chosen if entry.folder.exists() and now - entry.last_used >= unused_for]
    for name in published if files else ():
        folder = files_folder(name)
        if folder.is_dir() and ("all" in what or name in what):
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(Removal(str(folder), size))
    return removed


def get(name: str, hub: Hub) -> Path:
    """Download a published data set and convert it. Gives the folder of its files."""
    official = _official(name)
    folder = files_folder(name)
    splits = next(("train", kind.test) for kind in official.formats if isinstance(kind, HubParquet))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        download(hub, official.hub, splits, folder)
    except UserError:
        raise
    except Exception as error:  # every version of the hub's library has its own kinds of network errors
        raise UserError(
            f"The hub's {official.hub} cannot be reached ({str(error).strip() or type(error).__name__}). What was "
            "downloaded is kept, and the same command goes on from there. With the files from elsewhere: "
            f"{by_hand(official)}"
        ) from error
    _source(name).load()
    return folder


def take(name: str, path: Path) -> Path:
    """Copy the files of a published data set out of a folder or an archive, and convert them."""
    official = _official(name)
    with _opened(path) as folder:
        found = _found(official, folder)
        if found is None:
            layouts = "; or ".join(kind.layout for kind in official.formats)
            raise UserError(f"{path} has no files of {name!r}; expected {layouts}.")
        read(official, found)
        kept = _copied(found, files_folder(name))
    _source(name).load()
    return kept


def check(name: str) -> list[str]:
    """Read all there is of a data set and compare it with what it must be; what was found, a line each."""
    cls = part("data", name)
    lines = []
    if official := getattr(cls, "official", None):
        lines += _check_files(official)
    elif not hasattr(cls, "about"):
        raise UserError(f"{name!r} reads files of your own; they are checked when they are read.")
    else:
        _source(name).load()
        lines.append("it comes with the package")
    for entry in entries(name):
        try:
            verify(entry)
        except (DamagedError, FileNotFoundError) as error:
            forget(entry)
            raise UserError(f"{error}. The converted copy was removed; it will be made again when needed.") from error
        lines.append(f"{entry.folder}: the converted arrays have the right checksums")
    return lines


def _published() -> list[str]:
    return [name for name in names("data") if hasattr(part("data", name), "about")]


def _is_meant(entry: Entry, what: Sequence[str], published: Sequence[str]) -> bool:
    own = "own" in what and entry.name not in published
    return "all" in what or own or entry.name in what or entry.folder.name in what


def _removed(entry: Entry) -> Removal:
    size = entry.bytes
    try:
        return Removal(entry.folder.name, size, "" if discard(entry) else "it is in use")
    except OSError as error:
        return Removal(entry.folder.name, size, error.strerror or str(error))


def _copy(entry: Entry) -> Copy:
    samples, origin = 0, "arrays given in Python" if entry.name == "memory" else ""
    with suppress(KeyError, TypeError, IndexError, AttributeError):  # it is damaged, and can still be removed
        meta = entry.meta
        samples = sum(meta["arrays"][name]["shape"][0] for name in ("train_x", "test_x"))
        origin = meta["recipe"].get("settings", {}).get("path", origin)
    return Copy(entry.folder.name, origin, samples, entry.bytes, entry.last_used, entry.in_use)


def _check_files(official: Official) -> list[str]:
    try:
        found = find(official)
    except UserError:
        if entries(official.name):
            return []
        raise
    read(official, found)
    kind = "the published samples" if official.published.digests else "as many samples of each class as were published"
    return [f"{found.folder}: {kind}"]


def _line(name: str) -> Listed:
    cls = part("data", name)
    about: About | None = getattr(cls, "about", None)
    official: Official | None = getattr(cls, "official", None)
    copies = [entry for entry in entries(name) if entry.is_current] if about else []
    size = sum(entry.bytes for entry in copies)
    where = ", ".join(str(entry.folder) for entry in copies)
    if about is None:
        return Listed(name, summary(cls), "yours", "", 0, None, "")
    if official is None:
        return Listed(name, summary(cls), "ready", where, size, about, "")
    if copies:
        return Listed(name, summary(cls), "ready", where, size, about, "")
    try:
        found = find(official)
    except UserError:
        return Listed(name, summary(cls), "missing", "", 0, about, f"afbs data get {name} ({about.origin})")
    size = sum(path.stat().st_size for path in found.files.values())
    return Listed(name, summary(cls), "files", str(found.folder), size, about, "converted when first used")


def _official(name: str) -> Official:
    cls = part("data", name)
    official: Official | None = getattr(cls, "official", None)
    if official is None:
        what = "comes with the package" if hasattr(cls, "about") else "reads files of your own"
        raise UserError(f"There is nothing to get for {name!r}: it {what}.")
    return official


def _source(name: str) -> Source:
    source: Any = part("data", name)()
    if not isinstance(source, Source):
        raise UserError(f"{name!r} is no data source.")
    return source


def _found(official: Official, folder: Path) -> Found | None:
    """In the folder itself or below it, where archives put their one folder."""
    for place in (folder, *(folder / name for name in official.folders)):
        if found := find_in(official, place):
            return found
    return None


def _copied(found: Found, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for path in found.files.values():
            shutil.copyfile(path, beside / path.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(beside, folder)  # noqa: PTH105
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """A folder as it is, an archive unpacked for the time being."""
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise UserError(f"There is no file or folder {path}.")
    if not zipfile.is_zipfile(path) and not tarfile.is_tarfile(path):
        raise UserError(f"{path} is no folder and no archive that can be read: neither zip nor tar, packed or not.")
    with tempfile.TemporaryDirectory() as temporary:
        try:
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(temporary)
            else:
                with tarfile.open(path) as packed:
                    packed.extractall(temporary, filter="data")
        except tarfile.FilterError as error:
            raise UserError(f"{path} is not unpacked, for it would write where it has no business: {error}.") from None
        except Exception as error:  # a damaged archive raises nearly anything
            raise UserError(f"{path} is an archive that is damaged or cut short: {_first_line(error)}.") from error
        yield Path(temporary)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
