"""The label counts as they are, to compare the others with. Never with people's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from afbs.core.sketch import proportions
from afbs.privacy._sketched import Array, Sketched
from afbs.privacy.exposure import Exposure, Membership, groups_of, scored
from afbs.privacy.keys import Secrets
from afbs.privacy.messages import RefusedError
from afbs.seeds import Key


@final
@dataclass(frozen=True)
class PlainForResearch(Sketched):
    """Clients send their exact label counts to the server. For research only: it hides nothing."""

    number: Annotated[int, Ge(0)] = 1
    """How many clusters; 1 asks nobody anything, 0 chooses."""

    def sketch(self, counts: NDArray[np.int64], secrets: Secrets, release: int) -> Array:
        return counts.astype(np.float64)

    def point(self, sketch: Array, examples: int, classes: int) -> Array:
        if sketch.shape != (classes,):
            raise RefusedError(f"the counts must be {classes} numbers, they have the shape {sketch.shape}")
        if np.any(sketch < 0) or np.any(sketch != np.floor(sketch)):
            raise RefusedError("the counts are not whole numbers of samples")
        if sketch.sum() != examples or not examples:
            raise RefusedError("the counts do not add up to the client's number of samples")
        return proportions(sketch)

    def released(self, classes: int) -> dict[str, Any]:
        return {"what": "the exact label counts of each client", "protects": "nothing"}

    def exposure(self, table: NDArray[np.int64], key: Key) -> Exposure:
        return Exposure(
            [groups_of(self.group(dict(enumerate(table)), key))],
            [scored("what is sent", proportions(table), table)],
            Membership(1.0, 1.0, "the counts are sent"),
            "The server is told every client's exact label counts. For research on public data only.",
        )
