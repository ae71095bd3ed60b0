"""How much Gaussian noise a promise of differential privacy needs.

Balle & Wang, *Improving the Gaussian Mechanism for Differential Privacy*, ICML 2018 (arXiv 1805.06530), Theorem 8:
noise of standard deviation σ on a quantity that one change moves by at most Δ is (ε, δ)-private exactly where

    Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ.

It depends on the multiplier σ/Δ alone. Repeating the release r times with the multiplier m is as one with m/√r.
"""

from __future__ import annotations

import math
from functools import cache


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """The smallest δ for this ε and this multiplier σ/Δ."""
    from scipy.special import log_ndtr

    upper = log_ndtr(0.5 / multiplier - epsilon * multiplier)
    lower = epsilon + log_ndtr(-0.5 / multiplier - epsilon * multiplier)
    return math.exp(upper) * -math.expm1(min(0.0, lower - upper))


@cache
def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest multiplier that keeps (ε, δ). The root is rounded up, so the promise holds in floating point too."""
    from scipy.optimize import brentq

    root = brentq(lambda exponent: gaussian_delta(epsilon, math.exp(exponent)) - delta, -12.0, 30.0, xtol=1e-12)
    return math.exp(root) * (1 + 1e-9)


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """The smallest ε that this multiplier keeps at this δ."""
    from scipy.optimize import brentq

    if gaussian_delta(0.0, multiplier) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, multiplier) > delta:
        high *= 2
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, multiplier) - delta, 0.0, high, xtol=1e-9))


def largest_advantage(epsilon: float, delta: float) -> float:
    """How much better than guessing anyone can tell two neighbouring data sets apart, whatever they compute.

    The true positive rate less the false positive rate: Humphries et al. (arXiv 2010.12112), Theorem 3.1.
    """
    shrunk = math.exp(-epsilon)  # the other way round a large ε would overflow
    return (-math.expm1(-epsilon) + 2 * delta * shrunk) / (1 + shrunk)
