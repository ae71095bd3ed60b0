"""Opens the files of a run folder. Only regular files are read: a pipe would make a reader wait for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from afbs.types import UserError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_FILES = ("config.toml", "meta.json", "events.jsonl", "result.json", "model.safetensors")
_FOLDER = "checkpoints"


def opened(path: Path) -> BinaryIO:
    """The file, for reading. Where there is none that is a FileNotFoundError; all else is a sentence."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(str(error)) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(number, "rb")
    os.close(number)
    kind = next((name for matches, name in _KINDS if matches(mode)), "something else")
    raise UserError(f"`{path}` cannot be read: it is {kind}, not a file.")


def content(path: Path) -> bytes:
    """All of a small file."""
    with opened(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError | ValueError) -> UserError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UserError(f"`{path}` cannot be read: {reason}.")


def refuse_strangers(folder: Path) -> None:
    """What a run writes must be files of its own and a folder for checkpoints: opening anything else might never end,
    and writing to it would fail after hours."""
    for name, fits, kind in (
        *((name, Path.is_file, "file") for name in _FILES),
        (_FOLDER, Path.is_dir, "folder"),
    ):
        path = folder / name
        if os.path.lexists(path) and not fits(path):
            raise UserError(f"`{path}` is not a {kind}. Remove it, and what it held is made again or asked for.")
