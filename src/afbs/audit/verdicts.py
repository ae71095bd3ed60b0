"""What the audit finds out about each mechanism, on given label counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from afbs.audit.side_channel import Bias, side_channel
from afbs.core.clustering import kmeans
from afbs.core.sketch import proportions
from afbs.interfaces import LabelMechanism
from afbs.privacy.exposure import Exposing, Exposure, Finding, Integers, Membership, groups_of, guessed, worst
from afbs.seeds import Key
from afbs.types import ClientId


@dataclass(frozen=True)
class Audited:
    """All about one mechanism. `agreement` is the adjusted Rand index with the clusters that are really there."""

    mechanism: str
    settings: Mapping[str, Any]
    agreement: float
    findings: Sequence[Finding]
    membership: Membership | None
    sentence: str
    seconds: float

    @property
    def worst(self) -> Finding:
        """The attack that finds most main labels."""
        return worst(self.findings)

    @property
    def silent(self) -> bool:
        """Whether nothing about labels leaves a client, by the mechanism's own account."""
        return self.membership is not None and self.membership.allowed == 0.0


@dataclass(frozen=True)
class Audit:
    clients: int
    classes: int
    clusters: int
    reference: str
    """What `agreement` compares with."""
    verdicts: Sequence[Audited]
    guess: Finding
    """What is known without being sent anything."""
    side_channel: Finding
    """What a plain update tells, whatever the mechanism."""


def audit(
    counts: Mapping[ClientId, Integers],
    mechanisms: Mapping[str, LabelMechanism],
    key: Key,
    truth: Sequence[int] | None = None,
    bias: Bias | None = None,
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
    return Audit(
        clients=len(table),
        classes=table.shape[1],
        clusters=number,
        reference=reference,
        verdicts=[
            _verdict(name, mechanism, table, key.child(place), truth)
            for place, (name, mechanism) in enumerate(mechanisms.items())
        ],
        guess=guessed(table),
        side_channel=side_channel(table, key.child(-1), bias),
    )


def _verdict(name: str, mechanism: LabelMechanism, table: Integers, key: Key, truth: Sequence[int]) -> Audited:
    began = perf_counter()
    found = mechanism.exposure(table, key) if isinstance(mechanism, Exposing) else _unknown(mechanism, table, key)
    agreement = float(np.mean([_agreement(groups, truth) for groups in found.groups]))
    sentence = found.sentence
    if any(len(np.unique(groups)) > 1 for groups in found.groups):
        sentence += f" Its clusters agree with the true ones to {agreement:.2f} (1 is perfect, 0 is chance)."
    return Audited(
        name, _settings(mechanism), agreement, found.findings, found.membership, sentence, perf_counter() - began
    )


def _unknown(mechanism: LabelMechanism, table: Integers, key: Key) -> Exposure:
    """A mechanism that says nothing of itself."""
    groups = groups_of(mechanism.group(dict(enumerate(table)), key))
    sentence = "No attack on this mechanism is known here, which is no proof that there is none."
    return Exposure([groups], [Finding("none known")], None, sentence)


def _settings(mechanism: Any) -> dict[str, Any]:
    """All but where a secret is."""
    fields = dataclasses.fields(mechanism) if dataclasses.is_dataclass(mechanism) else ()
    return {field.name: getattr(mechanism, field.name) for field in fields if not field.name.startswith("secret")}


def _agreement(groups: Integers, truth: Sequence[int]) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, groups))
