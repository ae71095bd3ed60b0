"""Who takes part where slow clients hold labels of their own. Nothing is trained: selection sees no content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from afbs.algorithms.afbs import AFBS
from afbs.engine.plan import follow, plan
from afbs.interfaces import Latency
from afbs.latency.always import Always
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Decided, Training

CLASSES = 10
_CLIENTS, _IN_FLIGHT = 600, 120
_VERSIONS = 1800


@final
@dataclass(frozen=True)
class Rising(Latency):
    """A client's label is its id modulo ten, and its latency grows with it: evenly, or doubling with every label."""

    steep: bool = False
    per: Literal["client", "job"] = "client"

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        label = client.id % CLASSES
        low, high = (12 * 2**label, 24 * 2**label) if self.steep else (600 * label, 600 * label + 600)
        return max(1.0, low + key.uniform() * (high - low))


def took_part(clustered: bool, steep: bool, seed: int) -> dict[str, list[float]]:
    """For each label: its share of the updates that came and of those that counted, and how many clients never did."""
    sizes = np.random.default_rng(seed).lognormal(4, 1, _CLIENTS).astype(int) + 1
    clients = [ClientInfo(client, int(size), client % CLASSES if clustered else 0) for client, size in enumerate(sizes)]
    connection = VirtualTime(clients, Rising(steep), Always(), seed)
    settings: Any = {"in_flight": _IN_FLIGHT, "horizon": 1e12, "seed": seed, "rate": Training().rate}
    algorithm = AFBS(clustering=clustered)
    came, used = np.zeros(_CLIENTS), np.zeros(_CLIENTS)
    weight = np.zeros(_CLIENTS)
    for event in follow(plan(algorithm, clients, connection.reachable, versions=_VERSIONS, **settings), connection):
        if isinstance(event, Decided):
            for update in (*event.step.used, *event.step.dropped):
                came[update.client] += 1
            for update in event.step.used:
                used[update.client] += 1
                weight[update.client] += 1 / len(event.step.used)
    labels = np.arange(_CLIENTS) % CLASSES
    return {
        "came": _shares(came, labels),
        "used": _shares(used, labels),
        "weight": _shares(weight, labels),
        "kept": [
            round(float(used[labels == label].sum() / max(1.0, came[labels == label].sum())), 4)
            for label in range(CLASSES)
        ],
        "never": [int((used[labels == label] == 0).sum()) for label in range(CLASSES)],
    }


def _shares(counts: Any, labels: Any) -> list[float]:
    return [round(float(counts[labels == label].sum() / counts.sum()), 4) for label in range(CLASSES)]
