"""How a label mechanism says what it gives away: by attacking itself. `afbs.audit` scores and prints what it finds.

A mechanism that has a method `exposure` is audited; it plays the curious server on given label counts, with the best
attacks that are known. One without is not called safe: the audit says that no attack on it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from afbs.core import attacks
from afbs.core.sketch import proportions
from afbs.privacy.halves import TwoHalves, converse
from afbs.privacy.keys import simulated
from afbs.privacy.messages import Message
from afbs.seeds import Key
from afbs.types import ClientId, Grouping

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """What one attack found out. `top` and `exact` are shares of clients, `distance` is the mean total variation."""

    attack: str
    distance: float | None = None
    top: float | None = None
    exact: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Membership:
    """How well one sample's label can be told from another: measured, and what the mechanism promises at most."""

    measured: float
    allowed: float
    how: str


@dataclass(frozen=True)
class Exposure:
    """What a mechanism gives away on some clients."""

    groups: Sequence[Integers]
    """The clients' clusters as the server found them, once for each draw of the mechanism's randomness."""
    findings: Sequence[Finding]
    membership: Membership | None
    sentence: str
    """For whoever has to decide. How good the clusters are is added to it."""


@runtime_checkable
class Exposing(Protocol):
    def exposure(self, table: Integers, key: Key) -> Exposure:
        """`table` has a row of label counts a client; whatever is drawn comes from the key."""


@dataclass(frozen=True)
class Transcript:
    """All that the server got for a grouping: every answer of every client, in order."""

    grouping: Grouping
    answers: Mapping[ClientId, Sequence[Message]]

    @property
    def groups(self) -> Integers:
        return groups_of(self.grouping)

    def column(self, name: str) -> NDArray[Any]:
        """What each client sent under this name, the last time it did."""
        found = [
            [answer[name] for answer in answers if name in answer][-1] for _, answers in sorted(self.answers.items())
        ]
        return np.array(found)


def overheard(mechanism: TwoHalves, table: Integers, key: Key, **more: Any) -> Transcript:
    """Both halves in one process, and somebody who listens. `more` goes to the server's half."""
    clients = {client: mechanism.client(client, row, simulated(key, client)) for client, row in enumerate(table)}
    answers: dict[ClientId, list[Message]] = {client: [] for client in clients}
    examples = dict(enumerate(table.sum(axis=1).tolist()))
    talk = mechanism.found(examples, table.shape[1], key.child(2), **more)
    grouping = converse(talk, clients, lambda client, answer: answers[client].append(answer))
    return Transcript(grouping, answers)


def groups_of(grouping: Grouping) -> Integers:
    return np.array([grouping.cluster_of[client] for client in sorted(grouping.cluster_of)])


def scored(attack: str, estimates: Array, table: Integers) -> Finding:
    """How close the estimated distributions, a row a client, come to the true ones."""
    return Finding(
        attack,
        float(attacks.total_variation(estimates, proportions(table)).mean()),
        float(attacks.top_label_found(estimates, table).mean()),
        float(attacks.exact_histogram(estimates, table).mean()),
    )


def guessed(table: Integers) -> Finding:
    """What is known without being sent anything: the label shares of all clients together."""
    shares = table.sum(axis=0, keepdims=True) / table.sum()
    return scored("overall label shares", np.repeat(shares, len(table), axis=0), table)


def averaged(attack: str, found: Sequence[Finding]) -> Finding:
    """The mean over several draws."""
    numbers = [(finding.distance, finding.top, finding.exact) for finding in found]
    distance, top, exact = (float(np.mean(column)) for column in zip(*numbers, strict=True))
    return Finding(attack, distance, top, exact)


def worst(findings: Sequence[Finding]) -> Finding:
    """The attack that finds most main labels."""
    known = [finding for finding in findings if finding.top is not None]
    return max(known, key=lambda finding: finding.top or 0.0, default=Finding("none is known"))


def of_100(share: float | None) -> str:
    return "an unknown number of" if share is None else f"{100 * share:.0f} of 100"
