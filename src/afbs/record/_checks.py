"""A field of a line, if it is what it should be; otherwise a ValueError that names it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.record.kinds import Line
from afbs.record.schema import LONGEST, MOST

_LARGEST = 1e100


def as_column(values: Any, name: str, least: int = 0, most: int = MOST) -> list[int]:
    if type(values) is not list or not set(map(type, values)) <= {int}:
        raise ValueError(f"`{name}` is not a list of whole numbers")
    if values and not least <= min(values) <= max(values) <= most:
        raise ValueError(f"a number in `{name}` is out of range")
    return values


def as_object(value: Any, name: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"`{name}` is not an object")
    return value


def as_whole(line: Line, name: str) -> int:
    value = line[name]
    if type(value) is int and -MOST <= value <= MOST:
        return value
    raise ValueError(f"`{name}` is not a whole number")


def as_number(line: Line, name: str) -> int:
    value = line[name]
    if type(value) is int and 0 <= value <= MOST:
        return value
    raise ValueError(f"`{name}` is not a whole number from 0 on")


def as_real(value: Any, name: str) -> float:
    """Within what can be added up; a loss that has run away is as good as none."""
    if type(value) not in (int, float):
        raise ValueError(f"`{name}` is not a number")
    return float(value) if -_LARGEST < value < _LARGEST else math.nan


def as_known(value: Any, name: str) -> float:
    return math.nan if value is None else as_real(value, name)


def as_reals(values: Any, name: str) -> list[float]:
    if type(values) is not list:
        raise ValueError(f"`{name}` is not a list")
    return [as_known(value, name) for value in values]


def as_seconds(line: Line, name: str) -> float:
    value = line[name]
    if type(value) in (int, float) and 0 <= value <= LONGEST:
        return float(value)
    raise ValueError(f"`{name}` is not a number of seconds")


def as_share(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if type(value) in (int, float) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"`{name}` is not between 0 and 1")


def as_wall(line: Line) -> float:
    return math.nan if line.get("wall") is None else as_seconds(line, "wall")


def as_square(table: Any) -> NDArray[np.int64] | None:
    if table is None:
        return None
    if type(table) is not list or not table:
        raise ValueError("`confusion` is not a table")
    rows = [as_column(row, "confusion", 0, 10**12) for row in table]
    if {len(row) for row in rows} != {len(rows)}:
        raise ValueError("`confusion` is not as wide as high")
    return np.array(rows, np.int64)
