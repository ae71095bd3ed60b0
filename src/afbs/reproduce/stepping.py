"""How much training a run is worth: its plan, with a model that is one number and no data at all."""

from __future__ import annotations

import numpy as np

from afbs.clients.batches import batches
from afbs.config import Config
from afbs.experiment import schedule
from afbs.population import populate
from afbs.types import Decided


def full_steps(config: Config) -> float:
    """How many steps at the first learning rate the model has gone, if every step of SGD moves it by the rate.

    Stale updates pull a model that is mixed of others back, and a rate that falls makes steps shorter: both count.
    """
    clients, training, algorithm = populate(config).clients, config.training, config.algorithm
    local = {client.id: training.epochs * len(batches(client.examples, training)) for client in clients}
    models = [np.zeros(1, np.float32)]
    memory = algorithm.begin(models[0])
    for event in schedule(config, clients):
        if isinstance(event, Decided):
            used = event.step.used
            begun = np.stack([models[update.base_version] for update in used])
            gone = np.array([[update.order.rate * local[update.client]] for update in used], np.float32)
            vectors = -gone if algorithm.ships == "delta" else begun + gone
            memory, model = algorithm.apply(memory, models[-1], event.step, vectors)
            models.append(model)
    return float(models[-1][0]) / training.lr
