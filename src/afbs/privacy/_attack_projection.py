"""How a curious server reads the sketches of `projection`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from afbs.core import attacks
from afbs.core.informed import informed
from afbs.core.sketch import proportions
from afbs.privacy._attack_one_sample import MANY_LABELS, measured
from afbs.privacy.exposure import (
    Array,
    Exposure,
    Finding,
    Integers,
    averaged,
    of_100,
    overheard,
    scored,
    worst,
)
from afbs.privacy.keys import Secrets, simulated
from afbs.seeds import Key

if TYPE_CHECKING:
    from afbs.privacy.projection import Projection

DRAWS = 5
"""A projection is drawn this often, and what was found is averaged."""
PART = 120
"""Where labels are many, the costly attacks are made on so many of the clients."""


def exposure(mechanism: Projection, table: Integers, key: Key) -> Exposure:
    mechanism = replace(mechanism, secret_file="", secret_env="")  # the attack draws its own secrets
    classes = table.shape[1]
    part = slice(None) if classes <= MANY_LABELS else slice(PART)
    helpers = sorted({max(1, round(share * classes)) for share in (0.5, 0.8, 1.0, 1.2)})
    seen: dict[str, list[Finding]] = {}
    drawn, columns = [], []
    for draw in range(DRAWS):
        transcript = overheard(mechanism, table, key.child(draw))
        groups, points = transcript.groups, transcript.column("sketch").mean(axis=1)
        drawn.append(groups)
        projection = mechanism.projection(simulated(key.child(draw), 0).shared or b"", classes)
        alone = attacks.reconstruct(points, projection)
        seen.setdefault("known projection", []).append(scored("", alone, table))
        if draw == 0 or classes <= MANY_LABELS:
            noise = max(mechanism.noise, 1e-9) / mechanism.columns(classes) ** 0.5
            guess = informed(points[part], table[part].sum(axis=1), projection, noise, groups[part])
            seen.setdefault("known projection + clusters", []).append(scored("", guess, table[part]))
        order = key.child(draw, 1).generator().permutation(len(table))
        for number in helpers:
            if number < len(table):
                known, others = order[:number], order[number:][: len(table[part])]
                learned = attacks.learned_projection(points[known], proportions(table[known]))
                guess = attacks.reconstruct(points[others], learned)
                seen.setdefault(f"{number} known histograms", []).append(scored("", guess, table[others]))
        columns.append(_columns_found(points, projection, 4 * mechanism.noise))
    findings = [averaged(attack, found) for attack, found in seen.items()]
    note = "without help: the share of the projection's columns that lie where several clients lie"
    findings.append(Finding(f"duplicates: {np.mean(columns):.0%} of columns", note=note))

    def expected(counts: Integers, shared: bytes | None) -> Array:
        return replace(mechanism, noise=0.0).sketch(counts, Secrets(bytes(32), shared), 0)

    membership = measured(mechanism, expected, 1.0, table, key.child(DRAWS))
    return Exposure(drawn, findings, membership, _sentence(findings))


def _sentence(findings: list[Finding]) -> str:
    most, simplest = worst(findings), findings[0]
    return (
        "Not confidential: whoever knows the projection, and every client does, reads the main label of "
        f"{of_100(most.top)} clients and the exact label counts of {of_100(most.exact)} from their sketches "
        f"({of_100(simplest.top)} and {of_100(simplest.exact)} with the simplest method); a server that colludes with "
        "no client still learns who is like whom."
    )


def _columns_found(points: Array, projection: Array, tolerance: float) -> float:
    """The share of the projection's columns at which several clients lie: those with that label alone."""
    places = attacks.repeated_points(points, tolerance)
    if not len(places):
        return 0.0
    distance = np.linalg.norm(projection.T[:, None, :] - places[None, :, :], axis=2)
    return float((distance.min(axis=1) < tolerance).mean())
