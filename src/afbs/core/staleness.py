"""How much an update is worth after the model has moved on by `staleness` versions. Each rule is 1 at staleness 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

Discount: TypeAlias = Literal["each", "freshest", "none"]
"""By whose staleness the updates of a buffer are discounted: its own, the freshest one's, or nobody's."""

Rule: TypeAlias = Literal["polynomial", "constant", "hinge"]


def constant(staleness: int) -> float:
    return 1.0


def polynomial(staleness: int, exponent: float = 0.5) -> float:
    """(1 + τ)^-a; with a = ½ this is FedBuff's 1/√(1+τ)."""
    return float((1 + staleness) ** -exponent)


def hinge(staleness: int, slope: float = 10.0, grace: int = 6) -> float:
    """1 up to `grace`, then 1 / (a(τ-b) + 1), as in the FedAsync paper."""
    return 1.0 if staleness <= grace else 1.0 / (slope * (staleness - grace) + 1.0)


def worth(staleness: int, rule: Rule, exponent: float, slope: float, grace: int) -> float:
    """One of the three, by its name."""
    if rule == "polynomial":
        return polynomial(staleness, exponent)
    return hinge(staleness, slope, grace) if rule == "hinge" else constant(staleness)


def discounted_mean(staleness: Sequence[int], discount: Discount) -> tuple[float, ...]:
    """The weights 1/(n√(1+τ)) of a buffer. They are not normalised: a stale buffer makes a smaller step."""
    number = len(staleness)
    if discount == "each":
        return tuple([(1 + age) ** -0.5 / number for age in staleness])
    freshest = min(staleness, default=0) if discount == "freshest" else 0
    return (polynomial(freshest) / max(number, 1),) * number
