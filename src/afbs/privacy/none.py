"""No label information: all clients are one cluster, as in the paper's setting K = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from afbs.interfaces import LabelMechanism
from afbs.privacy.exposure import Exposure, Finding, Membership, groups_of, guessed, of_100
from afbs.privacy.halves import LabelCounts, one_cluster
from afbs.seeds import Key
from afbs.types import Grouping


@final
@dataclass(frozen=True)
class NoLabels(LabelMechanism):
    """Clients are asked nothing about their labels; all are one cluster."""

    number: Literal[1] = 1
    """There is one cluster."""

    def group(self, counts: LabelCounts, key: Key, most: int = 10) -> Grouping:
        """Nothing leaves a client."""
        return one_cluster(counts, "none")

    def exposure(self, table: NDArray[np.int64], key: Key) -> Exposure:
        return Exposure(
            [groups_of(self.group(dict(enumerate(table)), key))],
            [Finding("nothing is sent")],
            Membership(0.0, 0.0, "nothing is sent"),
            "Nothing about labels is asked, so nothing is given away and there are no clusters; the main label of "
            f"{of_100(guessed(table).top)} clients can be guessed from all clients' label shares.",
        )
