"""Writes a run folder, as `docs/run-folder.md` describes it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, final

from afbs.types import RunError, UserError


@final
class Writer:
    """Appends to a run folder. A full disk stops the run with a message; what was written stays and can be resumed."""

    def __init__(self, folder: Path, offset: int | None = None):
        """Opens `folder`; with `offset`, cuts `events.jsonl` back to where the run is taken up again."""
        self.folder = folder
        try:
            self._file = (folder / "events.jsonl").open("ab")
            self._claim()
            if offset is not None:
                self._file.truncate(offset)
                self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise RecordError(folder, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Closes what is still open: after a failure, so what cannot be written any more is let go."""
        with suppress(OSError):
            self._file.close()

    def event(self, **fields: Any) -> None:
        self._attempt(lambda: self._file.write(_line(fields)))

    def flush(self) -> None:
        """Let readers see what there is."""
        self._attempt(self._file.flush)

    def position(self) -> int:
        """Where the next line will begin, once everything before it is safe on disk."""
        self._attempt(self._file.flush)
        self._attempt(lambda: os.fsync(self._file.fileno()))
        return self._file.tell()

    def document(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        self.file(name, text.encode())

    def file(self, name: str, content: bytes) -> None:
        self._attempt(lambda: replace_file(self.folder / name, content))

    def close(self) -> None:
        self._attempt(self._file.close)

    def _claim(self) -> None:
        """Two processes that resume the same run would write into each other's lines. A lock ends with its process."""
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(f"{self.folder} is being written by another process; that run is not over yet.") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # a file system without locks
                raise

    def _attempt(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            raise RecordError(self.folder, error) from error


class RecordError(RunError):
    """The run folder could not be written."""

    def __init__(self, folder: Path, error: OSError):
        reason = error.strerror or str(error)
        super().__init__(
            f"Could not write to {folder}: {reason}. Make room, then: afbs resume {shlex.quote(str(folder))}"
        )


def replace_file(path: Path, content: bytes) -> None:
    """Write beside, make sure it is on disk, then rename: a file is there whole or not at all."""
    beside = path.with_name(path.name + ".part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def create_folder(path: Path, config: str) -> None:
    """A new folder for a run, with what is to be run. From here on it can be resumed."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        again = f"afbs resume {shlex.quote(str(path))}"
        raise UserError(f"{path} exists already. Choose another folder, or continue with: {again}") from None
    except OSError as error:
        raise UserError(f"The run folder {path} cannot be made: {error.strerror}.") from error
    try:
        (path / "checkpoints").mkdir()
        replace_file(path / "config.toml", config.encode())
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise RunError(f"Could not write to {path}: {error.strerror}. Nothing has been run.") from error


def discard_unless_run(path: Path) -> None:
    """Remove the folder of a run that turned out, before it began, not to be possible."""
    if not (path / "meta.json").exists():
        shutil.rmtree(path, ignore_errors=True)


def is_begun(folder: Path) -> bool:
    """Whether `create_folder` made this folder, even if nothing more was ever written."""
    return (folder / "config.toml").is_file() and (folder / "checkpoints").is_dir()


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
