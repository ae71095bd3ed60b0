"""How clients train, and what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from afbs.types.errors import UserError

_OPTIMIZERS = {
    **dict.fromkeys(("momentum", "remember"), ("momentum", "nesterov")),
    **dict.fromkeys(("beta1", "beta2", "epsilon"), ("adam", "adamw")),
}
"""Which optimizers a setting is for, where it is not for all."""


@dataclass(frozen=True, slots=True)
class Training:
    """How a client trains. Settings of the table `[training]`.

    The learning rate falls by `lr_decay` once an update of the model, once `lr_decay_seconds` of virtual time (by
    default the mean length of a synchronous round in the paper's setting, 6000 s · 120/121), or never.
    A last batch that is smaller than the others is kept, dropped, or merged with the one before it.
    A job has `steps` steps, or if that is 0 `epochs` epochs; over them its rate may fall to 0 by a `schedule`.
    An optimizer remembers nothing from one job to the next, unless it is to `remember`.
    With a `function` of the user's own, `train(model, data, order)`, that trains instead.
    """

    epochs: Annotated[int, Ge(1), Le(1_000_000)] = 5
    """Passes over the client's data, each shuffled anew."""
    batch_size: Annotated[int, Ge(1), Le(2**31)] = 64
    """Samples in a batch."""
    lr: Annotated[float, Gt(0), Le(1e30)] = 0.01
    """The learning rate of the first jobs."""
    lr_decay: Annotated[float, Gt(0), Le(1)] = 0.999
    """The factor by which it falls."""
    lr_decay_unit: Literal["update", "virtual_time", "none"] = "update"
    """It falls once a version of the model, once `lr_decay_seconds`, or never."""
    lr_decay_seconds: Annotated[float, Gt(0)] = 5950.0
    """Of virtual time; about the length of a synchronous round in the paper's setting."""
    last_batch: Literal["keep", "drop", "merge"] = "keep"
    """A smaller last batch of an epoch is kept, left out, or added to the one before."""
    steps: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """So many batches instead of epochs, whatever data a client has; 0: `epochs` decide."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Within a job the rate stays as it is, or falls towards 0 over its steps."""
    optimizer: Literal["sgd", "momentum", "nesterov", "adam", "adamw"] = "sgd"
    """What follows the gradient; plain `sgd` is the fastest."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Of `momentum` and `nesterov`."""
    remember: bool = False
    """A client's momentum goes on where its last job ended; else it begins anew with every job."""
    beta1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Of `adam` and `adamw`: how long their mean of gradients remembers."""
    beta2: Annotated[float, Ge(0), Lt(1)] = 0.999
    """The same for the mean of their squares."""
    epsilon: Annotated[float, Ge(1e-30), Le(1e6)] = 1e-8
    """What `adam` and `adamw` add to the root of that before they divide by it."""
    weight_decay: Annotated[float, Ge(0), Le(1e6)] = 0.0
    """Added to the gradient as this times the weights; `adamw` shrinks the weights apart from it."""
    clip_norm: Annotated[float, Gt(0)] = inf
    """The longest that a gradient, over all parameters, may be; a longer one is shortened to it."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Forward and loss are computed in it where torch deems it safe; weights and steps are always float32."""
    function: str | Callable[..., Any] = ""
    """A training function of one's own, as `package.module:name`; the settings are then advice to it."""

    @property
    def usual(self) -> bool:
        """Whether a step follows the gradient of the task's loss in float32, as the native kernels compute it."""
        return not self.function and self.precision == "float32"

    def __post_init__(self) -> None:
        for each in fields(self):
            users = _OPTIMIZERS.get(each.name)
            if users and self.optimizer not in users and getattr(self, each.name) != each.default:
                raise UserError(
                    f"`training.{each.name}` is a setting of {' and '.join(map(repr, users))}, and "
                    f"`training.optimizer` is {self.optimizer!r}. Leave it out, or choose one of them."
                )

    def rate(self, version: int, time: float) -> float:
        """The learning rate of a job dispatched at `time` from `version`."""
        if self.lr_decay_unit == "none":
            return self.lr
        return self.lr * self.lr_decay ** (version if self.lr_decay_unit == "update" else time / self.lr_decay_seconds)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A network: the name of one, or a user's own class or function, and what it is given besides the data's shape."""

    build: str | Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    kernel: Literal["auto", "native", "torch"] = "torch"
