"""Everybody is there all the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from afbs.interfaces import Availability
from afbs.seeds import Key
from afbs.types import ClientInfo


@final
@dataclass(frozen=True)
class Always(Availability):
    """Every client can be reached at any time, and no job is ever lost."""

    steady: ClassVar[bool] = True

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return time

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        return None
