"""How a curious server reads the noisy counts of `dp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from afbs.core import attacks
from afbs.core.calibration import largest_advantage
from afbs.core.informed import fitted
from afbs.privacy._attack_one_sample import measured
from afbs.privacy.exposure import Array, Exposure, Integers, averaged, of_100, overheard, scored, worst
from afbs.seeds import Key

if TYPE_CHECKING:
    from afbs.privacy.dp import DifferentiallyPrivate

DRAWS = 5
"""The noise is drawn this often, and what was found is averaged."""


def exposure(mechanism: DifferentiallyPrivate, table: Integers, key: Key) -> Exposure:
    drawn, alone, together = [], [], []
    examples, as_it_is = table.sum(axis=1), np.eye(table.shape[1])
    for draw in range(DRAWS):
        transcript = overheard(mechanism, table, key.child(draw))
        groups, noisy = transcript.groups, transcript.column("sketch")
        drawn.append(groups)
        points = noisy / examples[:, None]
        estimates = attacks.reconstruct(points, as_it_is)
        alone.append(scored("", estimates, table))
        for group in np.unique(groups):
            members = groups == group
            shared = attacks.reconstruct(noisy[members].sum(axis=0, keepdims=True) / examples[members].sum(), as_it_is)
            spread = mechanism.sigma / examples[members]
            estimates[members] = fitted(points[members], examples[members], as_it_is, spread, shared[0])
        together.append(scored("", estimates, table))
    findings = [averaged("noisy counts", alone), averaged("noisy counts + clusters", together)]

    def expected(counts: Integers, shared: bytes | None) -> Array:
        return counts.astype(np.float64)

    allowed = largest_advantage(mechanism.epsilon, mechanism.delta)
    membership = measured(mechanism, expected, allowed, table, key.child(DRAWS))
    most = worst(findings)
    sentence = (
        f"Protects any one sample (epsilon {mechanism.epsilon:g}, delta {mechanism.delta:g}): guessing one sample's "
        f"label succeeded {membership.measured:.2f} better than chance where {membership.allowed:.2f} is allowed, "
        f"and the exact label counts of {of_100(most.exact)} clients were found. It does not hide what a client "
        f"mostly has: the main label of {of_100(most.top)} clients is still found."
    )
    return Exposure(drawn, findings, membership, sentence)
