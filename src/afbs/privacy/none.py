"""No label information: all clients are one cluster, as in the paper's setting K = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from afbs.interfaces import LabelMechanism
from afbs.privacy._halves import Counts, one_cluster
from afbs.seeds import Key
from afbs.types import Grouping


@final
@dataclass(frozen=True)
class NoLabels(LabelMechanism):
    """Clients are asked nothing about their labels; all are one cluster."""

    number: Literal[1] = 1

    def group(self, counts: Counts, key: Key, most: int = 10) -> Grouping:
        """Nothing leaves a client."""
        return one_cluster(counts, "none")
