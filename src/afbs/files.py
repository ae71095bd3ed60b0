"""Files that a user names: found and read, or refused with a sentence. A byte-order mark is no matter."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date, time
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


def parsed(given: Sequence[str] | None) -> dict[str, Any]:
    """`a.b=1` as {"a.b": 1}; what is not TOML is text."""
    found = {}
    for setting in given or ():
        path, equals, value = setting.partition("=")
        path, value = path.strip(), value.strip()
        table, dot, key = path.partition(".")
        if not equals or not ((table and dot and key) or path == "name"):  # the one setting that is in no table
            raise UserError(f"`--set` wants TABLE.KEY=VALUE, as in training.lr=0.1, got {setting!r}.")
        found[path] = value if path == "name" and value[:1] not in "'\"" else _value(path, value)
    return found


def _value(path: str, text: str) -> Any:
    """Numbers, truth values, lists and quoted text as TOML writes them, and anything else as it stands."""
    if text in ("True", "False"):
        return text == "True"
    try:
        tables = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError):
        return toml(f"`--set {path}=…`", f"value = {text}")["value"]  # says what is wrong with it
    # More than one line of TOML is text after all, and so is what looks like a date.
    return text if list(tables) != ["value"] or isinstance(tables["value"], date | time) else tables["value"]


def _shown(text: str | Path) -> str:
    shown = repr(str(text))
    return shown if len(shown) <= 100 else f"{shown[:80]}… ({len(str(text)):,} letters)"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error).rstrip(".")
