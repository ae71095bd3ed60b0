"""What a plain update gives away, whatever the label mechanism: the bias of a model's last layer.

At the start a model gives every label about the same probability, so each step of gradient descent moves the bias by
lr · (proportions − 1/d).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from afbs.core.attacks import reconstruct
from afbs.privacy.exposure import Array, Finding, Integers, scored
from afbs.seeds import Key
from afbs.types import ClientId, Dataset, Order, Split

if TYPE_CHECKING:
    from afbs.config import Config

Bias: TypeAlias = tuple[Integers, Array]
"""The clients that trained, and their label distributions by the last bias alone."""

TRAINED = 60
"""How many clients train the configured model once."""
MADE_UP = 120
"""How many train a small network on made-up features where there are no data."""


def side_channel(table: Integers, key: Key, bias: Bias | None) -> Finding:
    """How well the distributions are read: by the configured model's bias, or else by a toy's."""
    if bias is not None:
        clients, estimates = bias
        note = f"{len(clients)} clients trained the configured model on their own data"
        return replace(scored("last-layer bias", estimates, table[clients]), note=note)
    lr, epochs, batch = 0.01, 5, 64
    clients = key.generator().permutation(len(table))[:MADE_UP]
    changes = toy_bias_changes(table[clients], key.child(1).generator(), lr, epochs, batch)
    steps = epochs * -(-table[clients].sum(axis=1) // batch)
    estimates = from_bias(changes, steps.astype(np.float64), lr)
    note = f"{len(clients)} clients trained a small network on made-up features"
    return replace(scored("last-layer bias", estimates, table[clients]), note=note)


def trained_bias(
    config: Config, dataset: Dataset, split: Split, counts: Mapping[ClientId, NDArray[np.int64]]
) -> Bias | None:
    """Some clients train the initial model once, and their steps are read as those of plain SGD.

    None if the model's last parameters are no bias with one number a label.
    """
    from threadpoolctl import threadpool_limits

    from afbs.clients.optimizers import scheduled
    from afbs.clients.trainer import Trainer
    from afbs.clients.workload import Workload
    from afbs.interfaces import Plain

    place = _last_bias(config, dataset)
    if place is None:
        return None
    training = config.training
    trainer = Trainer(
        Workload(dataset, split.indices, config.model, training, Plain(), "delta", config.run.seed, config.run.device)
    )
    chosen = Key.root(config.run.seed, "audit").child(-2).generator().permutation(len(counts))[:TRAINED]
    base = trainer.initial()
    deltas = np.empty((len(chosen), len(base)), np.float32)
    steps = np.empty(len(chosen))
    with threadpool_limits(limits=1):
        for row, client in enumerate(chosen):
            order = Order(int(client), 0, 0, row, 0.0, training.lr)
            number = trainer.train(row, order, base, deltas[row]).steps
            steps[row] = sum(scheduled(training, 1.0, step, number) for step in range(number))
    return chosen, from_bias(-deltas[:, place].astype(np.float64), steps, training.lr)


def _last_bias(config: Config, dataset: Dataset) -> slice | None:
    """Where in the flat vector the last layer's bias is: parameters come first, in the order of the module."""
    from afbs.clients.build import build

    parameters = list(build(config.model, dataset).parameters())
    end = sum(parameter.numel() for parameter in parameters)
    return slice(end - dataset.classes, end) if tuple(parameters[-1].shape) == (dataset.classes,) else None


def from_bias(change: Array, steps: Array, lr: float) -> Array:
    """The distributions behind the changes of a last layer's bias."""
    classes = change.shape[1]
    return reconstruct(change / (lr * steps[:, None]) + 1 / classes, np.eye(classes))


def toy_bias_changes(counts: Integers, rng: np.random.Generator, lr: float, epochs: int, batch: int) -> Array:
    """How the last bias of a small network changes when each client trains it: one hidden layer, made-up features.

    For where there are labels but no data. Features are Gaussian around one centre a label.
    """
    classes, features, hidden = counts.shape[1], 20, 32
    centres = rng.normal(size=(classes, features))
    start = [
        rng.uniform(-1, 1, shape) / fan_in**0.5
        for shape, fan_in in (
            ((features, hidden), features),
            ((hidden,), features),
            ((hidden, classes), hidden),
            ((classes,), hidden),
        )
    ]
    changes = []
    for row in counts:
        labels = np.repeat(np.arange(classes), row)
        samples = centres[labels] + rng.normal(size=(len(labels), features))
        end = _trained([part.copy() for part in start], samples, labels, rng, lr, epochs, batch)
        changes.append(end[3] - start[3])
    return np.array(changes)


def _trained(
    model: list[Array], samples: Array, labels: Integers, rng: np.random.Generator, lr: float, epochs: int, batch: int
) -> list[Array]:
    """Plain gradient descent, by hand: softmax regression on rectified features."""
    first, first_bias, last, last_bias = model
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for begin in range(0, len(labels), batch):
            chosen = order[begin : begin + batch]
            x, y = samples[chosen], labels[chosen]
            active = np.maximum(x @ first + first_bias, 0)
            scores = active @ last + last_bias
            error = np.exp(scores - scores.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(len(y)), y] -= 1
            error /= len(y)
            back = (error @ last.T) * (active > 0)
            last -= lr * active.T @ error
            last_bias -= lr * error.sum(axis=0)
            first -= lr * x.T @ back
            first_bias -= lr * back.sum(axis=0)
    return model
