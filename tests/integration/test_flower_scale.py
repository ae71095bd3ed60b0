"""Six hundred nodes in memory: what on-demand upload moves, and that it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from afbs.experiment.provenance import agreement
from afbs.transports.flower.node import Node
from afbs.transports.flower.shelf import Shelf
from afbs.types import Order, Shipped, Vector
from deployment import Deployment, tables
from grid import MemoryNode
from small import dataset

NODES, FLUSHES = 600, 1000
VOLUMES = np.maximum(1, np.random.default_rng(1).lognormal(4.0, 1.0, NODES).astype(int))
SECONDS = np.random.default_rng(5).uniform(1, 300, NODES)


def node(client: int, task: str, place: Path) -> MemoryNode:
    """A real node whose training is one draw towards its own centre."""

    def work(classes: int) -> Any:
        def train(order: Order, base: Vector, out: Vector, state: Any, new_state: Any) -> Shipped:
            out[:] = 0.01 * (base - np.random.default_rng([client, order.occurrence]).normal(size=len(base)))
            return Shipped(0, "done", 1, 1, 0.0)

        return train

    def test(classes: int, model: Vector) -> Any:
        return 0, {}

    made = Node(client, task, Shelf(place), lambda: int(VOLUMES[client]), lambda classes: np.ones(classes), work, test)  # type: ignore[arg-type, return-value]
    answers: dict[str, Callable[..., Any]] = {"query.hello": made.hello, "train": made.train, "query.fetch": made.fetch}

    def app(message: Message, context: Any) -> Message:
        return Message(answers[message.metadata.message_type](message.content), reply_to=message)

    def lasts(message: Message) -> float:
        return float(SECONDS[client]) if message.metadata.message_type == "train" else 0.0

    return MemoryNode(100 + client, app, {}, lasts)  # type: ignore[arg-type]


@pytest.mark.long
def test_on_demand_moves_at_most_65_percent_of_the_bytes_and_ends_in_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cluster, log-normal volumes, a buffer of ten. Fetching takes no time, so arrivals are the same."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    found = {}
    for upload in ("eager", "on_demand"):
        settings = tables(
            "afbs",
            algorithm={"buffer_size": 10},
            run={"in_flight": 60, "versions": FLUSHES, "virtual_days": 3000.0},
            transport={"upload": upload, "clients": NODES, "patience": 1e6},
            evaluation={"points": 1},
        )
        (tmp_path / upload).mkdir()
        deployment = Deployment(tmp_path / upload, settings, clients=0, data=dataset(60))
        task = agreement(deployment.config)
        for client in range(NODES):
            deployment.nodes.add(node(client, task, tmp_path / upload / f"node-{client}"))
        result = deployment.serve()
        assert result.record.result is not None
        orders = [(line["used"]["order"], line["dropped"]["order"]) for line in deployment.recorded("step")]
        found[upload] = result.params, result.record.result["traffic"], orders
    assert found["eager"][2] == found["on_demand"][2]
    np.testing.assert_array_equal(found["eager"][0], found["on_demand"][0])
    assert found["on_demand"][1]["uploaded"] <= 0.65 * found["eager"][1]["uploaded"]
