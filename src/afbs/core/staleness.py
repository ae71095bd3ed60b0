"""How much an update is worth after the model has moved on by `staleness` versions. Each is 1 at staleness 0."""

from __future__ import annotations


def constant(staleness: int) -> float:
    return 1.0


def polynomial(staleness: int, exponent: float = 0.5) -> float:
    """(1 + τ)^-a; with a = ½ this is FedBuff's 1/√(1+τ)."""
    return float((1 + staleness) ** -exponent)


def hinge(staleness: int, slope: float = 10.0, grace: int = 6) -> float:
    """1 up to `grace`, then 1 / (a(τ-b) + 1), as in the FedAsync paper."""
    return 1.0 if staleness <= grace else 1.0 / (slope * (staleness - grace) + 1.0)
