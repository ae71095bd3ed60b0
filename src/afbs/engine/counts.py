"""What a run did, and where its time went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afbs.types import Shipped


@dataclass
class Counts:
    """Updates, jobs and seconds. `train` and `evaluate` are the workers' seconds, the others the server's."""

    arrived: int = 0
    used: int = 0
    dropped: int = 0
    rejected: int = 0
    missing: int = 0
    lost: int = 0
    left: int = 0
    trained: int = 0
    samples: int = 0
    steps: int = 0
    evaluations: int = 0
    train: float = 0.0
    evaluate: float = 0.0
    plan: float = 0.0
    apply: float = 0.0
    record: float = 0.0
    wait: float = 0.0
    idle: float = 0.0
    """How long workers had nothing to do, after the first virtual hour."""
    watched: float = 0.0
    """How long workers were watched for that."""

    def add_jobs(self, results: Iterable[Shipped]) -> None:
        for result in results:
            self.trained += 1
            self.samples += result.samples
            self.steps += result.steps
            self.train += result.seconds

    def idle_share(self) -> float:
        """The share of their time that workers had nothing to do, from the second virtual hour on."""
        return round(self.idle / self.watched, 4) if self.watched else 0.0
