"""Can a server tell one sample's label? Two data sets that differ in it, told apart by what a mechanism releases."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from afbs.core import attacks
from afbs.core.calibration import gaussian_delta, largest_advantage
from afbs.privacy._keys import Secrets, simulated
from afbs.privacy.dp import DifferentiallyPrivate
from afbs.privacy.projection import Projection
from afbs.privacy.secure import Secure
from afbs.seeds import Key

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

TRIALS = 1000
"""Releases with and without the sample in question, for the membership attack."""
MANY_LABELS = 20
"""Beyond this, where a sketch is large, a tenth of that must do."""


@dataclass(frozen=True)
class Membership:
    """How well one sample's label can be told from another: measured, and what the mechanism promises at most."""

    measured: float
    allowed: float
    how: str


def measured(mechanism: Projection | DifferentiallyPrivate, table: Integers, key: Key) -> Membership:
    """A server that knows all of a client's samples but one label, told apart by the releases of the real mechanism."""
    sizes = table.sum(axis=1)
    chosen = [int(np.argsort(sizes, kind="stable")[int(share * (len(sizes) - 1))]) for share in (0.25, 0.5, 0.75)]
    found = []
    for place, client in enumerate(chosen):
        shared = simulated(key, client).shared
        one, other = table[client], _neighbour(table[client])
        means = [_expected(mechanism, row, shared) for row in (one, other)]
        direction = means[1] - means[0]
        draws = [
            np.array(
                [
                    float(_flat(mechanism.sketch(row, Secrets(own, shared), 0)) @ direction)
                    for own in _owns(key.child(place, which), TRIALS if len(one) <= MANY_LABELS else TRIALS // 10)
                ]
            )
            for which, row in enumerate((one, other))
        ]
        found.append(attacks.advantage(*draws))
    allowed = 1.0
    if isinstance(mechanism, DifferentiallyPrivate):
        allowed = largest_advantage(mechanism.epsilon, mechanism.delta)
    return Membership(float(np.mean(found)), allowed, "measured on three clients, small, middling and large")


def computed(mechanism: Secure, table: Integers) -> Membership:
    """Computed, not measured: whoever knows everything but one label of a middling client, from all the noisy sums."""
    middling = float(np.median(table.sum(axis=1)))
    # One label moves the proportions by √2/n in every sum, and the distance by at most 4/n in the last one.
    moved = (2 * mechanism.sums + 16 * mechanism.starts) ** 0.5 / middling
    how = "computed for a middling client against whoever knows all other samples of all clients"
    if not mechanism.noise:
        return Membership(1.0, 1.0, how)
    advantage = gaussian_delta(0.0, mechanism.noise / moved)
    return Membership(advantage, advantage, how)


def _neighbour(counts: Integers) -> Integers:
    """The same client, had one sample of its main label the next label."""
    other = counts.copy()
    main = int(counts.argmax())
    other[main] -= 1
    other[(main + 1) % len(counts)] += 1
    return other


def _expected(mechanism: Projection | DifferentiallyPrivate, counts: Integers, shared: bytes | None) -> Array:
    """A release without its noise, as whoever knows the secret can compute it."""
    if isinstance(mechanism, DifferentiallyPrivate):
        return counts.astype(np.float64)
    return _flat(replace(mechanism, noise=0.0).sketch(counts, Secrets(bytes(32), shared), 0))


def _flat(sketch: Array) -> Array:
    return np.asarray(sketch.reshape(-1))


def _owns(key: Key, number: int) -> list[bytes]:
    content = key.generator().bytes(32 * number)
    return [content[32 * i : 32 * i + 32] for i in range(number)]
