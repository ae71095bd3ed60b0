"""What algorithms share whose server has an optimiser: its settings, and the step along a weighted mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from afbs.core.serverside import Decay, Rate, Rule, ServerSide
from afbs.interfaces import Algorithm
from afbs.types import Matrix, Memory, Step, Vector

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Optimised(Algorithm[S]):
    """Its server takes a direction by `side`, as it is or as the gradient of an optimiser."""

    server_lr: Rate = 1.0
    """Factor on the mean of a step."""
    server: Rule = "sgd"
    """What the mean of a step is to the server: the step itself, or the gradient of an optimiser."""
    server_momentum: Decay = 0.9
    """How much of the last direction the server's optimiser keeps."""
    server_beta2: Decay = 0.99
    """The same for its mean of squares (`adam`, `yogi`)."""
    server_epsilon: Rate = 1e-3
    """What `adam` and `yogi` add to the root of that before they divide by it."""

    @cached_property
    def side(self) -> ServerSide:
        return ServerSide(self.server, self.server_lr, self.server_momentum, self.server_beta2, self.server_epsilon)


@dataclass(frozen=True, kw_only=True)
class Averaging(Optimised[S]):
    """The direction is the mean of a step's updates, weighed by `weigh`, and there is nothing else to remember."""

    @property
    def adds(self) -> bool:
        return self.server == "sgd"

    def begin(self, params: Vector) -> Memory:
        return self.side.begin(params)

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return self.side.mean_step(memory, params, step.weights, vectors)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return self.side.memory_bytes(parameters)
