"""How a client's step is made of its gradient: plain SGD, or what `[training]` asks for.

Gradients are clipped first, then decayed, then followed, in the arithmetic of `torch.optim` and
`torch.nn.utils.clip_grad_norm_`; only the global norm is summed in another order, over one flat vector. What a method
remembers it forgets after the job, unless momentum is to be remembered. Parameters that do not learn
(`requires_grad = False`) are not decayed either.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, inf, pi, sqrt
from typing import Protocol, TypeAlias, final

import torch
from torch import Tensor

from afbs.clients.flatten import FlatModel
from afbs.clients.pull import Pull
from afbs.types import Training

Descend: TypeAlias = Callable[[float], None]
"""One step at this rate along the gradient that the model holds and what pulls at it."""


class Method(Protocol):
    """What one job makes of its gradients, for one stretch of the parameters."""

    def step(self, params: Tensor, gradient: Tensor, rate: float) -> None:
        """Changes the parameters in place, and may change the gradient."""


@final
class Sgd:
    def __init__(self, training: Training, params: Tensor):
        self._decay = training.weight_decay

    def step(self, params: Tensor, gradient: Tensor, rate: float) -> None:
        params.add_(_decayed(gradient, params, self._decay), alpha=-rate)


@final
class Momentum:
    """A step goes along the sum of all gradients, each `momentum` times as heavy as the one after it.

    Nesterov's looks ahead: it takes the sum as it will be after one more such gradient.
    """

    def __init__(self, training: Training, params: Tensor, velocity: Tensor | None = None):
        self._decay, self._momentum = training.weight_decay, training.momentum
        self._ahead = training.optimizer == "nesterov"
        self._velocity = torch.zeros_like(params) if velocity is None else velocity

    def step(self, params: Tensor, gradient: Tensor, rate: float) -> None:
        gradient = _decayed(gradient, params, self._decay)
        velocity = self._velocity.mul_(self._momentum).add_(gradient)
        params.add_(gradient.add_(velocity, alpha=self._momentum) if self._ahead else velocity, alpha=-rate)


@final
class Adam:
    """Kingma and Ba, arXiv 1412.6980, algorithm 1; weight decay is a term of the gradient.

    AdamW (Loshchilov and Hutter, arXiv 1711.05101): weights decay apart from it, by the rate times `weight_decay`.
    """

    def __init__(self, training: Training, params: Tensor):
        self._decay, self._apart = training.weight_decay, training.optimizer == "adamw"
        self._beta1, self._beta2, self._epsilon = training.beta1, training.beta2, training.epsilon
        self._mean, self._square = torch.zeros_like(params), torch.zeros_like(params)
        self._room = torch.empty_like(params)
        self._steps = 0

    def step(self, params: Tensor, gradient: Tensor, rate: float) -> None:
        self._steps += 1
        if self._apart:
            params.mul_(1 - rate * self._decay)
        else:
            gradient = _decayed(gradient, params, self._decay)
        self._mean.lerp_(gradient, 1 - self._beta1)
        self._square.mul_(self._beta2).addcmul_(gradient, gradient, value=1 - self._beta2)
        spread = torch.sqrt(self._square, out=self._room)
        spread.div_(sqrt(1 - self._beta2**self._steps)).add_(self._epsilon)
        params.addcdiv_(self._mean, spread, value=-rate / (1 - self._beta1**self._steps))


_METHODS: dict[str, Callable[[Training, Tensor], Method]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "nesterov": Momentum,
    "adam": Adam,
    "adamw": Adam,
}


def descent(training: Training, model: FlatModel, pull: Pull | None = None, velocity: Tensor | None = None) -> Descend:
    """How the steps of one job are taken. Plain SGD is the model's own: it leaves rows that no sample used alone.

    A `velocity` that is given is gone on with, and changed in place.
    """
    if training.optimizer == "sgd" and not training.weight_decay and training.clip_norm == inf:
        return model.sgd(pull)
    methods = [(_method(training, params, velocity), params, slope) for params, slope in model.learning]

    def descend(rate: float) -> None:
        gradient = model.whole_gradient(pull)
        if training.clip_norm < inf:
            _clip(gradient, training.clip_norm)
        for method, params, slope in methods:
            method.step(params, slope, rate)

    return descend


def _method(training: Training, params: Tensor, velocity: Tensor | None) -> Method:
    if velocity is None:
        return _METHODS[training.optimizer](training, params)
    first = params.storage_offset()  # parameters come first in the model's vector
    return Momentum(training, params, velocity[first : first + len(params)])


def scheduled(training: Training, rate: float, step: int, steps: int) -> float:
    """The rate of a job's step, of so many, counted from 0. A falling one would be 0 at the step after the last."""
    if training.schedule == "linear":
        return rate * (1 - step / steps)
    if training.schedule == "cosine":
        return rate * (1 + cos(pi * step / steps)) / 2
    return rate


def _decayed(gradient: Tensor, params: Tensor, decay: float) -> Tensor:
    return gradient.add_(params, alpha=decay) if decay else gradient


def _clip(gradient: Tensor, most: float) -> None:
    """Shortens it to a norm of `most`; torch's 1e-6 against a norm of 0 is kept, so that the two agree."""
    gradient.mul_((most / (torch.linalg.vector_norm(gradient) + 1e-6)).clamp_(max=1.0))
