"""How unequally a model serves its clients, from one number a client."""

from __future__ import annotations

from math import ceil, nan

import numpy as np
from numpy.typing import NDArray

WORST = 0.1
"""The share of the clients that counts as the worst off."""


def fairness(values: NDArray[np.float64], sign: int) -> dict[str, float]:
    """The mean over clients, that of the worst tenth, and the standard deviation; `sign` is -1 where less is better.

    Every client counts once, however much data it has. Of numbers that are not finite nothing is known.
    """
    known = np.sort(sign * values[np.isfinite(values)])
    if not len(known):
        return {"mean": nan, "worst": nan, "spread": nan}
    worst = known[: ceil(WORST * len(known))]
    return {"mean": sign * float(known.mean()), "worst": sign * float(worst.mean()), "spread": float(known.std())}


def deciles(values: NDArray[np.float64]) -> list[float]:
    """The least, every tenth, and the most: eleven numbers."""
    known = values[np.isfinite(values)]
    return [float(number) for number in np.quantile(known, np.linspace(0, 1, 11))] if len(known) else []
