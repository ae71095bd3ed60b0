"""Who is who. Nodes come, go and come back under other numbers; a client is known by an id of its own.

The first node that says it is a client leaves a token's digest here; from then on only whoever has the token is
believed. What a client registered (its number of samples, its cluster) holds for the whole run.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np

from afbs.record.writer import replace_file
from afbs.transports.flower.messages import Here
from afbs.types import ClientId, ClientInfo, Grouping, RunError


@dataclass
class Member:
    """A client that was admitted."""

    proof: str
    info: ClientInfo


@final
@dataclass
class Roster:
    """Kept in the run folder as `fleet.json`, so that a server that was killed knows everybody again."""

    path: Path
    experiment: str
    members: dict[ClientId, Member] = field(default_factory=dict)
    grouping: Grouping | None = None
    node_of: dict[ClientId, int] = field(default_factory=dict)
    client_of: dict[int, ClientId] = field(default_factory=dict)

    def complaint(self, here: Here, task: str) -> str:
        """Why this node cannot take part; empty if it can."""
        if here.task != task:
            return "it has another task: its model, training, algorithm, seed or afbs differ"
        if here.examples < 1:
            return "it has no samples"
        known = self.members.get(here.client)
        if known is not None and not hmac.compare_digest(known.proof, proof(here.token)):
            return f"client {here.client} is somebody else"
        return ""

    def seat(self, node: int, client: ClientId) -> None:
        """From now on this node speaks for this client, and no other node does."""
        self.client_of.pop(self.node_of.get(client, -1), None)
        before = self.client_of.get(node)
        if before is not None:
            self.node_of.pop(before, None)
        self.node_of[client], self.client_of[node] = node, client

    def admit(self, client: ClientId, token: str, info: ClientInfo) -> None:
        self.members[client] = Member(proof(token), info)

    def save(self) -> None:
        members = {
            str(client): {"proof": member.proof, "examples": member.info.examples, "cluster": member.info.cluster}
            for client, member in self.members.items()
        }
        grouping = None
        if self.grouping is not None:
            centroids = self.grouping.centroids
            grouping = {
                "cluster_of": {str(client): cluster for client, cluster in self.grouping.cluster_of.items()},
                "notes": _plain(self.grouping.notes),
                "centroids": None if centroids is None else centroids.tolist(),
            }
        document = {"experiment": self.experiment, "members": members, "grouping": grouping}
        replace_file(self.path, json.dumps(document, indent=1).encode())


def proof(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def load(path: Path) -> Roster:
    try:
        found = json.loads(path.read_bytes())
        members = {
            int(client): Member(each["proof"], ClientInfo(int(client), each["examples"], each["cluster"]))
            for client, each in found["members"].items()
        }
        roster = Roster(path, found["experiment"], members)
        if (told := found["grouping"]) is not None:
            centroids = None if told["centroids"] is None else np.array(told["centroids"], np.float64)
            roster.grouping = Grouping(
                {int(client): cluster for client, cluster in told["cluster_of"].items()}, _notes(told), centroids
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} cannot be read, and without it nobody knows who the clients are: {error}.") from error
    return roster


def _plain(notes: Mapping[str, Any]) -> dict[str, Any]:
    return {**notes, "refused": {str(client): why for client, why in notes.get("refused", {}).items()}}


def _notes(told: Mapping[str, Any]) -> dict[str, Any]:
    notes = dict(told["notes"])
    return {**notes, "refused": {int(client): why for client, why in notes.get("refused", {}).items()}}
