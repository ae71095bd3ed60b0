"""Training with a function of the user's own: it is given the network and the samples, and changes the network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from afbs.types import ClientId, UserError


@dataclass(frozen=True)
class Lesson:
    """What a training function is told: whom it trains, from which version, at which rate, and how much.

    `steps` is 0 where `epochs` counts. `seed` is this job's own; torch has been seeded with it.
    """

    rate: float
    epochs: int
    steps: int
    batch_size: int
    seed: int
    client: ClientId = 0
    version: int = 0


Teach: TypeAlias = Callable[[nn.Module, TensorDataset, Lesson], Mapping[str, Any]]
"""Trains the network on a client's samples. It returns numbers by their names, which are recorded; `steps` and
`samples` among them say how much work it was."""


class Taught(NamedTuple):
    end: Tensor
    steps: int
    samples: int
    told: Mapping[str, float]


def taught(teach: Teach, network: nn.Module, x: Tensor, y: Tensor, lesson: Lesson) -> Taught:
    """What the function makes of the network. It has a copy: whatever it does to it is over after the job."""
    name = f"`training.function`: {named(teach)}"
    module = copy.deepcopy(network).train()
    before = _tensors(module)
    size, device = sum(each.numel() for each in before), before[0].device
    try:
        told = teach(module, TensorDataset(x, y), lesson)
    except Exception as error:
        error.add_note(f"This was in {name}, of client {lesson.client}.")
        raise
    after = _tensors(module)
    if sum(each.numel() for each in after) != size:
        now = sum(each.numel() for each in after)
        raise UserError(f"{name} left a network of {now:,} numbers, and was given one of {size:,}.")
    moved = [each.device for each in after if each.device != device]
    if moved:
        raise UserError(f"{name} left the network on the device {moved[0]}, and was given it on {device}.")
    numbers = _numbers(name, told)
    end = torch.cat([each.detach().reshape(-1).float() for each in after])
    return Taught(end, int(numbers.pop("steps", 0)), int(numbers.pop("samples", 0)), numbers)


def named(teach: Any) -> str:
    return str(getattr(teach, "__qualname__", type(teach).__name__))


def _tensors(module: nn.Module) -> list[Tensor]:
    """In the order of the flat vector; a function may have put others in the place of those that were there."""
    return [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]


def _numbers(name: str, told: Any) -> dict[str, float]:
    wanted = "it must return numbers by their names, such as {'loss': 0.3}"
    if not isinstance(told, Mapping):
        got = "nothing" if told is None else f"a {type(told).__name__}"
        raise UserError(f"{name} returned {got}; {wanted}.")
    try:
        return {str(key): float(value) for key, value in told.items()}
    except (TypeError, ValueError, RuntimeError):
        unfit = next(key for key, value in told.items() if not isinstance(value, int | float))
        raise UserError(f"{name} returned {told[unfit]!r} for {unfit!r}; {wanted}.") from None
