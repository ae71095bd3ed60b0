"""Files that a user names: found and read, or refused with a sentence. A byte-order mark is no matter."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from afbs.types import UserError

ENCODING = "utf-8-sig"
"""UTF-8, with or without the mark that spreadsheets and some editors put first."""


def path_of(place: str, text: str | Path) -> Path:
    """The path that a setting or an option names; `~` is the user's home."""
    try:
        path = Path(text).expanduser()
        path.is_file()  # asks the system whether this can be a name at all
    except (OSError, ValueError, RuntimeError) as error:  # too long, or unreadable; a zero byte; `~nobody`
        raise UserError(f"`{place}`: {_shown(text)} cannot be a file ({_reason(error)}).") from None
    if not str(text) or "\0" in str(text):
        raise UserError(f"`{place}`: {_shown(text)} is not the name of a file.")
    return path


def toml(where: str, text: str) -> dict[str, Any]:
    """The tables of a text in TOML; `where` begins the sentence if it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not TOML: {error}.") from error
    except RecursionError:
        raise UserError(f"{where} is not TOML that can be read: its brackets are nested too deeply.") from None
    except ValueError:  # Python reads no whole number of more than some thousands of digits
        raise UserError(
            f"{where} has a whole number of thousands of digits; the largest allowed is 2^63 - 1."
        ) from None


def _shown(text: str | Path) -> str:
    shown = repr(str(text))
    return shown if len(shown) <= 100 else f"{shown[:80]}… ({len(str(text)):,} letters)"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error).rstrip(".")
