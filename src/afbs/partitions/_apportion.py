"""Whole numbers in given proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from afbs.types import UserError

WIDEST = 50.0
"""The most that the logarithm of clients' volumes may be spread: the largest draw is then still a number."""


def largest_remainder(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers that sum to `total` and differ from their exact share by less than one; ties go to the first."""
    exact = weights * (total / weights.sum())
    numbers: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    short = total - int(numbers.sum())
    numbers[np.argsort(numbers - exact, kind="stable")[:short]] += 1
    return numbers


def volumes(total: int, clients: int, least: int, sigma: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many samples each client has: `least` for everyone, the rest in log-normal proportions."""
    rest: NDArray[np.int64] = largest_remainder(total - least * clients, np.exp(sigma * rng.standard_normal(clients)))
    return rest + np.int64(least)


def require_samples(samples: int, clients: int, least: int) -> None:
    """A UserError if there are too few samples to go round."""
    if samples < least:
        raise UserError(f"`partition.min_examples` must be at most the number of samples ({samples}), got {least}.")
    if samples < clients * least:
        raise UserError(
            f"`partition.clients`: {clients} clients with at least {least} of {samples} samples each cannot be made; "
            f"at most {samples // least} clients would do."
        )
