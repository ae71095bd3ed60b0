"""Which orders bring their vector along, and how many bytes that moved.

An eager order uploads with its announcement. On demand, a vector that is used costs a message of its own, and one that
is dropped costs nothing. So waiting pays where P(dropped) × upload time > P(used) × fetch time; `auto` measures all
three, and tries the way it does not think best once in a while, for it may have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, final

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


@dataclass
class _Measured:
    """The share of updates that were dropped, and seconds: of a fetch, and of an order beyond its training, with its
    vector and without."""

    dropped: _Mean = field(default_factory=_Mean)
    fetch: _Mean = field(default_factory=_Mean)
    eager: _Mean = field(default_factory=_Mean)
    announced: _Mean = field(default_factory=_Mean)


@final
@dataclass
class Uploads:
    """Decides an order at a time. Nothing that it decides changes the model."""

    mode: Literal["eager", "on_demand", "auto"]
    _asked: int = 0
    _seen: _Measured = field(default_factory=_Measured)

    def measured(self) -> dict[str, Any]:
        """For the record, from which a server that was killed recalls it."""
        return {"asked": self._asked, **asdict(self._seen)}

    def recall(self, measured: Mapping[str, Any]) -> None:
        means = dict(measured)
        self._asked = means.pop("asked")
        self._seen = _Measured(**{name: _Mean(**mean) for name, mean in means.items()})

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
        dropped, upload = self._seen.dropped.value, max(0.0, self._seen.eager.value - self._seen.announced.value)
        if not self._seen.fetch.number:  # nothing that waited was ever needed
            return dropped > 0.5
        return dropped * upload > (1.0 - dropped) * self._seen.fetch.value

    def arrived(self, uploaded: bool, seconds: float) -> None:
        """An order took so long beyond its training."""
        (self._seen.eager if uploaded else self._seen.announced).add(max(0.0, seconds))

    def fetched(self, seconds: float) -> None:
        self._seen.fetch.add(seconds)

    def settled(self, dropped: bool) -> None:
        self._seen.dropped.add(float(dropped))
