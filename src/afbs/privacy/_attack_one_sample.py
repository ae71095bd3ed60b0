"""Can a server tell one sample's label? Two data sets that differ in it, told apart by what a mechanism releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from afbs.core import attacks
from afbs.privacy.exposure import Array, Integers, Membership
from afbs.privacy.keys import Secrets, simulated
from afbs.seeds import Key

if TYPE_CHECKING:
    from afbs.privacy._sketched import Sketched

TRIALS = 1000
"""Releases with and without the sample in question."""
MANY_LABELS = 20
"""Beyond this, where a sketch is large, a tenth of that must do."""


def measured(
    mechanism: Sketched,
    expected: Callable[[Integers, bytes | None], Array],
    allowed: float,
    table: Integers,
    key: Key,
) -> Membership:
    """A server that knows all of a client's samples but one label, told apart by the releases of the real mechanism.

    `expected` is a release without its noise, as whoever knows the shared secret can compute it.
    """
    sizes = table.sum(axis=1)
    chosen = [int(np.argsort(sizes, kind="stable")[int(share * (len(sizes) - 1))]) for share in (0.25, 0.5, 0.75)]
    found = []
    for place, client in enumerate(chosen):
        shared = simulated(key, client).shared
        one, other = table[client], _neighbour(table[client])
        direction = (expected(other, shared) - expected(one, shared)).reshape(-1)
        draws = [
            np.array(
                [
                    float(mechanism.sketch(row, Secrets(own, shared), 0).reshape(-1) @ direction)
                    for own in _owns(key.child(place, which), TRIALS if len(one) <= MANY_LABELS else TRIALS // 10)
                ]
            )
            for which, row in enumerate((one, other))
        ]
        found.append(attacks.advantage(*draws))
    return Membership(float(np.mean(found)), allowed, "measured on three clients, small, middling and large")


def _neighbour(counts: Integers) -> Integers:
    """The same client, had one sample of its main label the next label."""
    other = counts.copy()
    main = int(counts.argmax())
    other[main] -= 1
    other[(main + 1) % len(counts)] += 1
    return other


def _owns(key: Key, number: int) -> list[bytes]:
    content = key.generator().bytes(32 * number)
    return [content[32 * i : 32 * i + 32] for i in range(number)]
