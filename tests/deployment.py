"""A small deployment in memory: real apps on the virtual grid, a task small enough to train in a millisecond."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message
from safetensors.numpy import load_file

from afbs import registry
from afbs.apps.client import client_app
from afbs.apps.server import fleet_of
from afbs.clients.workload import Workload
from afbs.config import Config, load
from afbs.executors.inline import InlineSession
from afbs.experiment.assembly import schedule
from afbs.experiment.result import Result
from afbs.experiment.serving import serve
from afbs.experiment.verifying import clients
from afbs.interfaces import Brief, Source
from afbs.record.seal import lines
from afbs.transports.flower.fleet import FlowerFleet
from afbs.transports.replay import Replay
from afbs.types import Dataset, Decided, Stopped, Vector
from grid import QUERY_SECONDS, MemoryGrid, MemoryNode, Nodes, order_of
from small import Softmax, dataset

CLIENTS = 6


def tables(name: str = "afbs", /, **more: Any) -> dict[str, Any]:
    kind = registry.find("algorithm", name)
    small = {"buffer_size": 3, "queue_size": 3}
    chosen = {key: value for key, value in small.items() if key in kind.__dataclass_fields__}
    found: dict[str, Any] = {
        "name": "deployed",
        "algorithm": {"name": name, **chosen},
        "run": {"seed": 3, "versions": 8, "in_flight": 4, "virtual_days": 1.0},
        "training": {"epochs": 2, "batch_size": 4, "lr": 0.1},
        "partition": {"name": "iid", "clients": CLIENTS},
        "clusters": {"name": "none"},
        "evaluation": {"points": 3},
        "executor": {"name": "inline"},
        "transport": {"name": "flower", "clients": CLIENTS, "patience": 300.0, "fetch_seconds": 90.0},
    }
    for table, settings in more.items():
        found[table] = {**found.get(table, {}), **settings} if isinstance(settings, Mapping) else settings
    return found


@dataclass(frozen=True)
class Data(Source):
    """What the test made, as a source."""

    made: Any = None

    def load(self) -> Dataset:
        found: Dataset = self.made
        return found


def uneven(message: Message) -> float:
    """Queries are quick; training takes long, and how long depends on the order alone."""
    if message.metadata.message_type != "train":
        return QUERY_SECONDS
    return 3.0 + ((order_of(message) or 0) * 7 % 11) * 2.5


def _watched(app: Any, trained: dict[int, Vector], home: Path) -> Any:
    """The app, with a copy of whatever it puts on its node's disk."""

    def call(message: Message, context: Any) -> Message:
        reply: Message = app(message, context)
        for path in home.glob("*/order-*.st"):
            order = int(path.stem[6:])
            if order not in trained:
                trained[order] = load_file(path)["vector"]
        return reply

    return call


@dataclass
class Deployment:
    """Nodes with disks, and servers that come and go over one folder."""

    place: Path
    tables: dict[str, Any]
    clients: int = CLIENTS
    lasts: Callable[[Message], float] = uneven
    data: Dataset = field(default_factory=lambda: dataset(samples=60))
    overrides: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.overrides = {"model": Softmax, "data": Data(self.data), **self.overrides}
        self.nodes = Nodes()
        self.said: list[str] = []
        self.trained: dict[int, Vector] = {}
        """What each order shipped, whoever got it."""
        for client in range(self.clients):
            self.nodes.add(self.node(client))

    @property
    def folder(self) -> Path:
        return self.place / "run"

    @property
    def config(self) -> Config:
        return load(self.tables, self.overrides)

    def node(self, client: int, number: int | None = None, **changes: Any) -> MemoryNode:
        settings = {"partition-id": client, "home": str(self.place / f"node-{client}"), **changes}
        app = _watched(client_app(self.tables, **self.overrides), self.trained, Path(settings["home"]))
        return MemoryNode(100 + client if number is None else number, app, settings, self.lasts)

    def serve(self, grid: MemoryGrid | None = None, meet: Callable[[FlowerFleet], None] = lambda fleet: None) -> Result:
        """One life of the server."""
        grid = grid or MemoryGrid(self.nodes)
        config = self.config

        def reach(brief: Brief) -> FlowerFleet:
            self.fleet = fleet_of(grid, config, brief, self.said.append, clock=self.nodes)
            meet(self.fleet)
            return self.fleet

        return serve(config, reach, self.folder, dataset=self.data, on_note=self.said.append)

    def recorded(self, *kinds: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in lines(self.folder / "events.jsonl")]
        return [line for line in found if not kinds or line["event"] in kinds]

    def oracle(self) -> Vector:
        """The model that the recorded steps make of what the nodes trained, one step after another."""
        config, record = self.config, self.recorded()
        meta = json.loads((self.folder / "meta.json").read_text())
        algorithm, model = config.algorithm, InlineSession(self.workload()).initial()
        memory = algorithm.begin(model)
        taken = {line["version"]: line["used"]["order"] for line in record if line["event"] == "step"}
        for event in schedule(config, clients(meta), Replay(record)):
            if isinstance(event, Stopped):
                break
            if isinstance(event, Decided):
                used = tuple(each for each in event.step.used if each.order.sequence in taken[event.version])
                if used:
                    rows = np.stack([self.trained[update.order.sequence] for update in used])
                    step = event.step._replace(used=used, weights=algorithm.weigh(used))
                    memory, model = algorithm.apply(memory, model, step, rows)
        return model

    def workload(self) -> Workload:
        config = self.config
        rule, ships = config.algorithm.local, config.algorithm.ships
        return Workload(self.data, [], config.model, config.training, rule, ships, config.run.seed)


ALGORITHMS: list[str] = registry.names("algorithm")
