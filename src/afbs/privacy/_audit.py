"""Plays the curious server against each label mechanism, on given label counts, and measures what it finds out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.core import attacks
from afbs.core.clustering import kmeans
from afbs.core.informed import fitted, informed
from afbs.core.sketch import proportions
from afbs.interfaces import LabelMechanism
from afbs.privacy._audit_membership import Membership, computed, measured
from afbs.privacy._halves import Message, converse
from afbs.privacy._keys import simulated
from afbs.privacy._masking import decode
from afbs.privacy._sketched import Sketched
from afbs.privacy.dp import DifferentiallyPrivate
from afbs.privacy.none import NoLabels
from afbs.privacy.plain_for_research import PlainForResearch
from afbs.privacy.projection import Projection
from afbs.privacy.secure import Secure
from afbs.seeds import Key
from afbs.types import ClientId

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

DRAWS = 5
"""A projection or a noise is drawn this often, and what was found is averaged."""
MANY_LABELS = 20
"""Beyond this the costly attacks are made on a part of the clients."""
PART = 120


@dataclass(frozen=True)
class Finding:
    """What one attack found out. `top` and `exact` are shares of clients, `distance` is the mean total variation."""

    attack: str
    distance: float | None = None
    top: float | None = None
    exact: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """All about one mechanism. `agreement` is the adjusted Rand index with the clusters that are really there."""

    mechanism: str
    settings: Mapping[str, Any]
    agreement: float
    findings: Sequence[Finding]
    membership: Membership | None
    seconds: float

    @property
    def worst(self) -> Finding:
        """The attack that finds most main labels."""
        known = [finding for finding in self.findings if finding.top is not None]
        return max(known, key=lambda finding: finding.top or 0.0, default=Finding("none is known"))


@dataclass(frozen=True)
class Audit:
    clients: int
    classes: int
    clusters: int
    reference: str
    """What `agreement` compares with."""
    verdicts: Sequence[Verdict]
    guess: Finding
    """What is known without being sent anything: the label shares of all clients together."""
    side_channel: Finding
    """What a plain update tells, whatever the mechanism."""


def audit(
    counts: Mapping[ClientId, Integers],
    mechanisms: Mapping[str, LabelMechanism],
    key: Key,
    truth: Sequence[int] | None = None,
    bias: tuple[Integers, Array] | None = None,
) -> Audit:
    """Attack each mechanism. `truth` are the clients' true clusters, where the partition knows.

    `bias` is a first estimate by the side channel: the clients that trained, and their distributions as estimated.
    """
    table = np.array([counts[client] for client in sorted(counts)])
    number = max([getattr(mechanism, "number", 1) for mechanism in mechanisms.values()], default=1)
    reference = "the clusters of the partition"
    if truth is None:
        reference = "K-means on the exact label proportions"
        truth = kmeans(proportions(table), max(number, 1), key.integer()).labels.tolist()
    verdicts = []
    for place, (name, mechanism) in enumerate(mechanisms.items()):
        began = perf_counter()
        agreement, findings, membership = _attacked(mechanism, table, key.child(place), truth)
        settings = {field: value for field, value in vars(mechanism).items() if not field.startswith("secret")}
        verdicts.append(Verdict(name, settings, agreement, findings, membership, perf_counter() - began))
    prior = np.repeat(table.sum(axis=0, keepdims=True) / table.sum(), len(table), axis=0)
    return Audit(
        clients=len(table),
        classes=table.shape[1],
        clusters=number,
        reference=reference,
        verdicts=verdicts,
        guess=_finding("overall label shares", prior, table),
        side_channel=_side_channel(table, key.child(-1), bias),
    )


def _attacked(
    mechanism: LabelMechanism, table: Integers, key: Key, truth: Sequence[int]
) -> tuple[float, list[Finding], Membership | None]:
    if isinstance(mechanism, Projection):
        return _projection(mechanism, table, key, truth)
    if isinstance(mechanism, DifferentiallyPrivate):
        return _noisy(mechanism, table, key, truth)
    if isinstance(mechanism, Secure):
        return _secure(mechanism, table, key, truth)
    grouping = mechanism.group(dict(enumerate(table)), key)
    agreement = _agreement([grouping.cluster_of[client] for client in range(len(table))], truth)
    if isinstance(mechanism, PlainForResearch):
        nothing_hidden = Membership(1.0, 1.0, "the counts are sent")
        return agreement, [_finding("what is sent", proportions(table), table)], nothing_hidden
    if isinstance(mechanism, NoLabels):
        return agreement, [], Membership(0.0, 0.0, "nothing is sent")
    return agreement, [], None


def _projection(
    mechanism: Projection, table: Integers, key: Key, truth: Sequence[int]
) -> tuple[float, list[Finding], Membership]:
    classes = table.shape[1]
    width = mechanism.columns(classes)
    part = slice(None) if classes <= MANY_LABELS else slice(PART)
    helpers = sorted({max(1, round(share * classes)) for share in (0.5, 0.8, 1.0, 1.2)})
    seen: dict[str, list[Finding]] = {}
    agreements, columns = [], []
    open_secret = replace(mechanism, secret_file="", secret_env="")  # the attack draws its own secrets
    for draw in range(DRAWS):
        groups, sketches = _overheard(open_secret, table, key.child(draw))
        agreements.append(_agreement(groups, truth))
        points = sketches.mean(axis=1)
        projection = mechanism.projection(simulated(key.child(draw), 0).shared or b"", classes)
        alone = attacks.reconstruct(points, projection)
        seen.setdefault("known projection", []).append(_finding("", alone, table))
        if draw == 0 or classes <= MANY_LABELS:
            noise = max(mechanism.noise, 1e-9) / width**0.5
            guess = informed(points[part], table[part].sum(axis=1), projection, noise, groups[part])
            seen.setdefault("known projection + clusters", []).append(_finding("", guess, table[part]))
        order = key.child(draw, 1).generator().permutation(len(table))
        for number in helpers:
            if number < len(table):
                known, others = order[:number], order[number:][: len(table[part])]
                learned = attacks.learned_projection(points[known], proportions(table[known]))
                guess = attacks.reconstruct(points[others], learned)
                seen.setdefault(f"{number} known histograms", []).append(_finding("", guess, table[others]))
        columns.append(_columns_found(points, projection, 4 * mechanism.noise))
    findings = [_mean(attack, found) for attack, found in seen.items()]
    note = "without help: the share of the projection's columns that lie where several clients lie"
    findings.append(Finding(f"duplicates: {np.mean(columns):.0%} of columns", note=note))
    return float(np.mean(agreements)), findings, measured(open_secret, table, key.child(DRAWS))


def _noisy(
    mechanism: DifferentiallyPrivate, table: Integers, key: Key, truth: Sequence[int]
) -> tuple[float, list[Finding], Membership]:
    agreements, alone, together = [], [], []
    examples, as_it_is = table.sum(axis=1), np.eye(table.shape[1])
    for draw in range(DRAWS):
        groups, noisy = _overheard(mechanism, table, key.child(draw))
        agreements.append(_agreement(groups, truth))
        points = noisy / examples[:, None]
        estimates = attacks.reconstruct(points, as_it_is)
        alone.append(_finding("", estimates, table))
        for group in np.unique(groups):
            members = groups == group
            shared = attacks.reconstruct(noisy[members].sum(axis=0, keepdims=True) / examples[members].sum(), as_it_is)
            spread = mechanism.sigma / examples[members]
            estimates[members] = fitted(points[members], examples[members], as_it_is, spread, shared[0])
        together.append(_finding("", estimates, table))
    findings = [_mean("noisy counts", alone), _mean("noisy counts + clusters", together)]
    return float(np.mean(agreements)), findings, measured(mechanism, table, key.child(DRAWS))


def _secure(
    mechanism: Secure, table: Integers, key: Key, truth: Sequence[int]
) -> tuple[float, list[Finding], Membership]:
    """The server's whole transcript: the centroids, every masked vector, and every sum."""
    clients = {client: mechanism.client(client, row, simulated(key, client)) for client, row in enumerate(table)}
    examples = dict(enumerate(table.sum(axis=1).tolist()))
    opened: list[Array] = []
    masked: dict[ClientId, Array] = {}

    def listen(client: ClientId, answer: Message) -> None:
        if "masked" in answer:
            masked[client] = decode(answer["masked"])

    talk = mechanism.found(examples, table.shape[1], key.child(2), watch=opened.append)
    grouping = converse(talk, clients, listen)
    assert grouping.centroids is not None
    groups = np.array([grouping.cluster_of[client] for client in range(len(table))])
    centroid = grouping.centroids[groups]
    shape = (mechanism.starts, mechanism.number, table.shape[1] + 2)
    vectors = np.array([masked[client].reshape(shape)[:, :, 1:-1].sum(axis=(0, 1)) for client in range(len(table))])
    vectors = vectors - vectors.min(axis=1, keepdims=True)
    findings = [
        _finding("centroid and cluster id", centroid, table),
        _finding("one masked vector", proportions(vectors), table),
        Finding(
            "differences of sums",
            exact=_readable(opened, table, mechanism.noise),
            note="clients with at least 10 samples of 2 labels whose counts are a sum or the difference of two, "
            f"nameless; {_readable(opened, np.roll(table, 1, axis=1), mechanism.noise):.1%} with the labels exchanged",
        ),
    ]
    return _agreement(groups, truth), findings, computed(mechanism, table)


def _overheard(mechanism: Sketched, table: Integers, key: Key) -> tuple[Integers, Array]:
    """The clusters that the mechanism finds, and the sketches that the server was sent for it."""
    clients = {client: mechanism.client(client, row, simulated(key, client)) for client, row in enumerate(table)}
    sketches: dict[ClientId, Array] = {}
    grouping = converse(
        mechanism.found(dict(enumerate(table.sum(axis=1).tolist())), table.shape[1], key.child(2), 10),
        clients,
        lambda client, answer: sketches.update({client: answer["sketch"]}),
    )
    everyone = range(len(table))
    groups = np.array([grouping.cluster_of[client] for client in everyone])
    return groups, np.array([sketches[client] for client in everyone])


def _columns_found(points: Array, projection: Array, tolerance: float) -> float:
    """The share of the projection's columns at which several clients lie: those with that label alone."""
    places = attacks.repeated_points(points, tolerance)
    if not len(places):
        return 0.0
    distance = np.linalg.norm(projection.T[:, None, :] - places[None, :, :], axis=2)
    return float((distance.min(axis=1) < tolerance).mean())


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


def _side_channel(table: Integers, key: Key, bias: tuple[Integers, Array] | None) -> Finding:
    if bias is not None:
        clients, estimates = bias
        return replace(
            _finding("last-layer bias", estimates, table[clients]),
            note=f"{len(clients)} clients trained the configured model on their own data",
        )
    lr, epochs, batch = 0.01, 5, 64
    clients = key.generator().permutation(len(table))[:PART]
    changes = attacks.toy_bias_changes(table[clients], key.child(1).generator(), lr, epochs, batch)
    steps = epochs * -(-table[clients].sum(axis=1) // batch)
    estimates = attacks.from_bias(changes, steps.astype(np.float64), lr)
    return replace(
        _finding("last-layer bias", estimates, table[clients]),
        note=f"{len(clients)} clients trained a small network on made-up features",
    )


def _finding(attack: str, estimates: Array, table: Integers) -> Finding:
    return Finding(
        attack,
        float(attacks.total_variation(estimates, proportions(table)).mean()),
        float(attacks.top_label_found(estimates, table).mean()),
        float(attacks.exact_histogram(estimates, table).mean()),
    )


def _mean(attack: str, found: Sequence[Finding]) -> Finding:
    def mean(take: Callable[[Finding], float | None]) -> float:
        return float(np.mean([take(finding) for finding in found]))

    return Finding(attack, mean(lambda f: f.distance), mean(lambda f: f.top), mean(lambda f: f.exact))


def _agreement(groups: Sequence[int] | Integers, truth: Sequence[int]) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, groups))
