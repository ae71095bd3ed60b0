"""What a person should know of a data set before using it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """Shown by `afbs data list`."""

    train: int
    test: int
    classes: int
    licence: str
    origin: str
