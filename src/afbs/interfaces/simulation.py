"""How simulated clients behave: how long they take, and when they are there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from afbs.seeds import Key
from afbs.types import ClientInfo


class Latency(ABC):
    """How long a job takes, from the order to the arrival, in virtual seconds.

    `per` says how often it is drawn: once a client, which then always takes as long, or anew for each job. `work` is
    how many times the usual work an order asks for, and is only given where it asks for another amount (`Ask`).
    """

    per: Literal["client", "job"]

    @abstractmethod
    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float: ...


class Availability(ABC):
    """When a client can be reached, and when it vanishes in the middle of a job."""

    steady: ClassVar[bool] = False
    """Whether everybody can be reached at any time and nobody vanishes, so that nobody need ask."""

    @abstractmethod
    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        """The first moment from `time` on at which the client can be given work; infinity if never."""

    @abstractmethod
    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        """The moment between `start` and `finish` at which the client is lost with its job, or None."""

    def absence(self, client: ClientInfo, key: Key) -> float:
        """How long a client that vanished from this job cannot be reached, beyond what `back` says."""
        return 0.0

    def joins(self, client: ClientInfo) -> float:
        """When the server first hears of the client: at the beginning, or later; infinity if never."""
        return 0.0
