"""How a curious server reads the transcript of `secure`: the centroids, every masked vector, and every sum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from afbs.core import attacks
from afbs.core.calibration import gaussian_delta
from afbs.core.sketch import proportions
from afbs.privacy._masking import decode
from afbs.privacy.exposure import Array, Exposure, Finding, Integers, Membership, of_100, overheard, scored, worst
from afbs.seeds import Key

if TYPE_CHECKING:
    from afbs.privacy.secure import Secure


def exposure(mechanism: Secure, table: Integers, key: Key) -> Exposure:
    opened: list[Array] = []
    transcript = overheard(mechanism, table, key, watch=opened.append)
    groups, centroids = transcript.groups, transcript.grouping.centroids
    assert centroids is not None
    shape = (len(table), mechanism.starts, mechanism.number, table.shape[1] + 2)
    vectors = decode(transcript.column("masked")).reshape(shape)[:, :, :, 1:-1].sum(axis=(1, 2))
    vectors = vectors - vectors.min(axis=1, keepdims=True)
    masked = scored("one masked vector", proportions(vectors), table)
    findings = [
        scored("centroid and cluster id", centroids[groups], table),
        masked,
        Finding(
            "differences of sums",
            exact=_readable(opened, table, mechanism.noise),
            note="clients with at least 10 samples of 2 labels whose counts are a sum or the difference of two, "
            f"nameless; {_readable(opened, np.roll(table, 1, axis=1), mechanism.noise):.1%} with the labels exchanged",
        ),
    ]
    sentence = (
        "The server sees sums and one cluster id a client. From these it guesses the main label of "
        f"{of_100(worst(findings).top)} clients, which is what the cluster's average gives and no more; a masked "
        f"vector by itself gives {of_100(masked.top)}, as blind guessing does. It holds against a server that keeps to "
        "the protocol."
    )
    return Exposure([groups], findings, _one_sample(mechanism, table), sentence)


def _readable(opened: Sequence[Array], table: Integers, noise: float) -> float:
    """The share of clients whose exact counts are the difference of two sums, or a sum over one client."""
    fit = table[(table.sum(axis=1) >= 10) & ((table > 0).sum(axis=1) >= 2)]
    pieces = [sums.reshape(-1, sums.shape[-1])[:, :-1] for sums in opened]
    steps = [after - before for before, after in pairwise(pieces)]
    rows = np.vstack([*pieces, *steps])
    rows = rows[np.rint(np.abs(rows[:, 0])) == 1]
    guesses = np.maximum(rows[:, 1:] * np.sign(rows[:, :1]), 0)
    total = guesses.sum(axis=1)
    guesses = guesses[(total > 0) & (total < 1.5 + 2 * noise * table.shape[1] ** 0.5)]  # one client, and noise
    guesses = np.unique(guesses / guesses.sum(axis=1, keepdims=True), axis=0)
    if not len(guesses) or not len(fit):
        return 0.0
    return float(np.mean([attacks.exact_histogram(guesses, np.tile(row, (len(guesses), 1))).any() for row in fit]))


def _one_sample(mechanism: Secure, table: Integers) -> Membership:
    """Computed, not measured: whoever knows everything but one label of a middling client, from all the noisy sums."""
    middling = float(np.median(table.sum(axis=1)))
    # One label moves the proportions by √2/n in every sum, and the distance by at most 4/n in the last one.
    moved = (2 * mechanism.sums + 16 * mechanism.starts) ** 0.5 / middling
    how = "computed for a middling client against whoever knows all other samples of all clients"
    if not mechanism.noise:
        return Membership(1.0, 1.0, how)
    advantage = gaussian_delta(0.0, mechanism.noise / moved)
    return Membership(advantage, advantage, how)
