"""The ClientApp: a node's data and training, in the messages of `afbs.transports.flower`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from afbs.apps.data import Labelled, Local, client_id, own
from afbs.apps.setup import ConfigSource, on_node
from afbs.config import Config
from afbs.experiment.provenance import agreement
from afbs.transports.flower.node import Node, Work
from afbs.transports.flower.shelf import Shelf
from afbs.types import ClientId, Order, Shipped, Vector

if TYPE_CHECKING:
    from afbs.clients.own import Teach
    from afbs.clients.trainer import Trainer

Load = Callable[[Context], Labelled]


def client_app(
    config: ConfigSource, *, load: Load | None = None, train: Teach | None = None, **overrides: Any
) -> ClientApp:
    """A ClientApp that trains as the configuration says.

    `load` gives the node's own samples and labels; without it the node takes its share (`partition-id`) of the
    configured data. `train` is a function of one's own, `train(model, data, order)`, in the place of
    `training.function`: it is given the network, a torch Dataset and a `Lesson`, and changes the network. `overrides`
    are tables or objects, as for `afbs.run`.
    """
    app = ClientApp()

    def answering(answer: Callable[[Node, RecordDict], RecordDict]) -> Callable[[Message, Context], Message]:
        def handler(message: Message, context: Context) -> Message:
            node = node_of(context, on_node(config, context.run_config, overrides), load, train)
            return Message(answer(node, message.content), reply_to=message)

        return handler

    app.query("hello")(answering(Node.hello))
    app.query("fetch")(answering(Node.fetch))
    app.query("test")(answering(Node.tested))
    app.query("label")(answering(Node.label))
    app.train()(answering(Node.train))
    return app


def node_of(context: Context, config: Config, load: Load | None, train: Teach | None) -> Node:
    """The node that this process is a part of. Its data are loaded when they are first needed."""
    number = client_id(context)
    shelf = Shelf(_home(context, number))
    # Whoever was given no number makes one up, and keeps it: 48 bits, so that no two are likely to be the same.
    client = int(sha256(shelf.token.encode()).hexdigest()[:12], 16) if number is None else number
    place = _Place(context, config, load, train, client)
    return Node(
        client,
        agreement(config),
        shelf,
        lambda: len(place.local.train),
        lambda classes: place.local.counts(classes),
        place.work,
        place.test,
        config.algorithm.local.stateful or config.training.remember,
        config.clusters,
    )


@final
class _Place:
    """What costs time to make, made at most once a message."""

    def __init__(self, context: Context, config: Config, load: Load | None, train: Teach | None, client: ClientId):
        self._context = context
        self._config = config
        self._load = load
        self._train = train
        self._client = client

    @cached_property
    def local(self) -> Local:
        return own(self._load(self._context) if self._load else None, self._config, self._client)

    def work(self, classes: int) -> Work:
        trainer = self._trainer(classes)

        def work(order: Order, base: Vector, out: Vector, state: Vector | None, new_state: Vector | None) -> Shipped:
            return trainer.train(0, order, base, out, state, new_state)

        return work

    def test(self, classes: int, model: Vector) -> tuple[int, Mapping[str, float]]:
        number = len(self.local.held)
        if not number:
            return 0, {}
        found = self._trainer(classes).evaluate(0, model.copy(), 0, local=True).totals
        return number, {name: float(values[0]) for name, values in found.items()}

    def _trainer(self, classes: int) -> Trainer:
        import torch

        from afbs.clients.trainer import Trainer
        from afbs.clients.workload import Workload

        torch.set_num_threads(1)  # as everywhere else: sums are the same on any machine, and nodes share theirs
        config, algorithm = self._config, self._config.algorithm
        workload = Workload(
            replace(self.local.dataset, classes=classes),
            self.local.of(self._client),
            config.model,
            replace(config.training, function=self._train or config.training.function),
            algorithm.local,
            algorithm.ships,
            config.run.seed,
            config.run.device,
            config.task,
            [self.local.held],
        )
        return Trainer(workload)


def _home(context: Context, number: ClientId | None) -> Path:
    """Where the node keeps what must last: `home` of its settings, or a folder of its own in the user's home."""
    told = context.node_config.get("home") or os.environ.get("AFBS_NODE_HOME")
    if told:
        return Path(str(told)).expanduser()
    return Path.home() / ".afbs" / ("node" if number is None else f"node-{number}")
