"""Which orders bring their vector along, and how many bytes that moved.

An eager order uploads with its announcement. On demand, a vector that is used costs a message of its own, and one that
is dropped costs nothing. So waiting pays where P(dropped) × upload time > P(used) × fetch time; `auto` measures all
three, and tries the way it does not think best once in a while, for it may have changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal, final

_FIRST = 4
"""Orders of each kind to begin with, before anything is known."""
_EVERY = 16
_FORGET = 0.9


@dataclass
class Traffic:
    """Bytes of vectors: announced by nodes, uploaded to the server, never uploaded because their update was settled
    without; and of models sent out."""

    announced: int = 0
    uploaded: int = 0
    spared: int = 0
    sent: int = 0

    def line(self) -> dict[str, int]:
        return asdict(self)


@dataclass
class _Mean:
    """A mean that forgets."""

    value: float = 0.0
    number: int = 0

    def add(self, value: float) -> None:
        share = max(1.0 - _FORGET, 1.0 / (self.number + 1))
        self.value += share * (value - self.value)
        self.number += 1


@final
@dataclass
class Uploads:
    """Decides an order at a time. Nothing that it decides changes the model."""

    mode: Literal["eager", "on_demand", "auto"]
    _asked: int = 0
    _dropped: _Mean = field(default_factory=_Mean)
    _fetch: _Mean = field(default_factory=_Mean)
    _eager: _Mean = field(default_factory=_Mean)
    _announced: _Mean = field(default_factory=_Mean)

    def now(self) -> bool:
        """Whether the next order's vector comes along with its announcement."""
        if self.mode != "auto":
            return self.mode == "eager"
        self._asked += 1
        if self._asked <= 2 * _FIRST:
            return self._asked % 2 == 1
        best = not self.waiting_pays()
        return best if self._asked % _EVERY else not best

    def waiting_pays(self) -> bool:
        upload = max(0.0, self._eager.value - self._announced.value)
        if not self._fetch.number:  # nothing that waited was ever needed
            return self._dropped.value > 0.5
        return self._dropped.value * upload > (1.0 - self._dropped.value) * self._fetch.value

    def arrived(self, uploaded: bool, seconds: float) -> None:
        """An order took so long beyond its training."""
        (self._eager if uploaded else self._announced).add(max(0.0, seconds))

    def fetched(self, seconds: float) -> None:
        self._fetch.add(seconds)

    def settled(self, dropped: bool) -> None:
        self._dropped.add(float(dropped))
