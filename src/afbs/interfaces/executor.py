"""Who computes, and where vectors live meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from afbs.types import Assignment, ClientId, Evaluated, Matrix, Order, Shipped, Vector


class Store(ABC):
    """Where the vectors of a session live: rows of one model's size under numbers, its slots."""

    @abstractmethod
    def put(self, vector: Vector) -> int:
        """Keep a copy of a vector where every worker can read it."""

    @abstractmethod
    def get(self, slot: int) -> Vector:
        """A view; only good until the slot is dropped."""

    @abstractmethod
    def drop(self, slot: int) -> None: ...

    @abstractmethod
    def block(self, rows: int) -> tuple[int, Matrix]:
        """Room for the results of one step: the slot of its first row (the next row has the next number), and all of
        them as one matrix, so that a weighted sum is one product."""

    @abstractmethod
    def release(self, first: int) -> None:
        """Give a block back."""

    @property
    @abstractmethod
    def peak_bytes(self) -> int:
        """The most memory that vectors have taken at a time."""


class Session(ABC):
    """The work of one run on some workers. Only numbers travel; vectors are in the store."""

    store: Store
    workers: int
    depth: int
    """How many tasks may be under way at once; enough that no worker waits while the server thinks."""

    @abstractmethod
    def initial(self) -> Vector:
        """The model before training."""

    @abstractmethod
    def submit(self, task: Assignment) -> None: ...

    @abstractmethod
    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        """What has been finished. Waits for at least one while anything is under way, but not longer than `seconds`."""

    @abstractmethod
    def settle(self, order: Order, kept: bool) -> None:
        """The step of this order has been applied: from now on its client remembers what it learned then, if `kept`."""

    @abstractmethod
    def remembered(self) -> Mapping[ClientId, Vector]:
        """What clients remember, as far as it is kept here, for a checkpoint."""

    @abstractmethod
    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        """Let clients remember what a checkpoint says."""

    @abstractmethod
    def close(self) -> None: ...


class WorkerPool(ABC):
    """Workers that have been started, or are starting, and wait for a session."""

    @abstractmethod
    def session(self, workload: Any) -> Session:
        """Brief everybody on a run's work. One session at a time."""

    @abstractmethod
    def close(self) -> None:
        """Lets everybody go at once, whatever they are doing; again does nothing."""


class Executor(ABC):
    """Who computes. A frozen dataclass of its settings."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How many workers there will be."""

    @abstractmethod
    def start(self) -> WorkerPool:
        """Workers that start up while the caller still prepares their work."""
