"""How an epoch is cut into batches, and what to say when a network cannot train on one of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from afbs.types import Order, Training, UserError

F = TypeVar("F", bound=Callable[..., Any])


def batches(samples: int, training: Training) -> list[int]:
    """The sizes of an epoch's batches. The only batch of a small client is always kept."""
    size, rule = training.batch_size, training.last_batch
    full, rest = divmod(samples, size)
    if not rest:
        return [size] * full
    if not full or rule == "keep":
        return [size] * full + [rest]
    return [size] * full if rule == "drop" else [size] * (full - 1) + [size + rest]


def steps_of(order: Order, training: Training, samples: int) -> int:
    """How many steps a job of so many samples has. What the order says comes before what is usual."""
    usual = 0 if order.epochs else training.steps
    return order.steps or usual or (order.epochs or training.epochs) * len(batches(samples, training))


def names_small_batches(train: F) -> F:
    """What torch says of a batch of one, as a sentence about the client and the settings."""

    @wraps(train)
    def wrapped(trainer: Any, task: int, order: Order, *args: Any, **kwargs: Any) -> Any:
        try:
            return train(trainer, task, order, *args, **kwargs)
        except ValueError as error:
            if "Expected more than 1 value per channel" not in str(error):
                raise
            work = trainer._work
            raise UserError(_too_small(order.client, len(work.indices[order.client]), work.training)) from error

    return cast(F, wrapped)


def _too_small(client: int, samples: int, training: Training) -> str:
    why = f"`model`: its BatchNorm cannot train on a batch of one sample, and client {client} has "
    if samples == 1:
        return f"{why}only one sample. `partition.min_examples` = 2 or a network without BatchNorm would do."
    if training.batch_size == 1:
        return f"{why}no other at `training.batch_size` = 1. A larger one would do."
    return f"{why}one at the end of its {samples}. `training.last_batch` = 'merge' or 'drop' would do."
