"""The values that travel between the parts. They hold facts and decide nothing.

`Order` and `Update` are named tuples because a long plan makes tens of millions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

ClientId: TypeAlias = int
Vector: TypeAlias = NDArray[np.float32]
"""One whole model, flat."""
Matrix: TypeAlias = NDArray[np.float32]
"""One row an update."""
Memory: TypeAlias = dict[str, NDArray[Any]]
"""What an algorithm's server keeps between two steps besides the model; named, so that a checkpoint can hold it.
Numbers are kept as arrays of no dimension."""
Tallies: TypeAlias = Mapping[str, Any]
"""What a task counted over some samples: numbers and arrays by name. Over more samples they are added."""
Facts: TypeAlias = Mapping[str, Any]
"""What an algorithm found out about the content of updates: numbers, or lists of them."""


class UserError(Exception):
    """Something the user wrote is wrong. The message says where, what, and what would do."""


class RunError(Exception):
    """A run that was rightly configured could not go on. Its folder can be resumed once the cause is gone."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What the server knows of a client. Not its labels: `cluster` is all that their sketch leaves behind."""

    id: ClientId
    examples: int
    cluster: int = 0


class Ask(NamedTuple):
    """One client that `dispatch` wants to train, and how much: as many epochs or steps; 0 of both is as usual."""

    client: ClientId
    epochs: int = 0
    steps: int = 0


class Order(NamedTuple):
    """Train this client from this version, at this rate. All that a worker must know of a job, fixed when it is given.

    `occurrence` counts the client's own orders, `sequence` all orders. `epochs` and `steps` are 0 where the amount of
    work is the usual one.
    """

    client: ClientId
    version: int
    occurrence: int
    sequence: int
    time: float
    rate: float = 0.0
    epochs: int = 0
    steps: int = 0


class Update(NamedTuple):
    """A finished order, as metadata. `version` is the server's when it arrived, `sequence` counts arrivals."""

    order: Order
    version: int
    examples: int
    sequence: int
    time: float = 0.0
    look: Callable[[Sequence[Update]], Facts] | None = None

    @property
    def client(self) -> ClientId:
        return self.order.client

    @property
    def base_version(self) -> int:
        return self.order.version

    @property
    def staleness(self) -> int:
        return self.version - self.order.version

    def facts(self, updates: Sequence[Update] = ()) -> Facts:
        """What the algorithm's own `look` says of the content of these updates; of this one alone if none are named.

        Asking makes them exist: the plan stops here until they have been trained. What was said is in the record.
        """
        if self.look is None:
            raise UserError("An algorithm that asks for `update.facts()` must say what to look at: its method `look`.")
        return self.look(updates or (self,))


class Step(NamedTuple):
    """One change of the model: what counted, with which weight, what did not, and why.

    `why` has a few words for each of `used`, then each of `dropped`; or it is empty.
    """

    used: tuple[Update, ...]
    dropped: tuple[Update, ...] = ()
    notes: Mapping[str, Any] = {}
    weights: tuple[float, ...] = ()
    why: tuple[str, ...] = ()


class Dispatched(NamedTuple):
    time: float
    order: Order


class Arrived(NamedTuple):
    time: float
    update: Update


class Looked(NamedTuple):
    """What an algorithm asked of the content of updates, when `update` arrived, and was told."""

    time: float
    update: Update
    facts: Facts


class Lost(NamedTuple):
    time: float
    order: Order


class Left(NamedTuple):
    """The client was to be drawn and cannot be reached."""

    time: float
    client: ClientId


class Returned(NamedTuple):
    time: float
    client: ClientId


class Joined(NamedTuple):
    time: float
    client: ClientInfo


class Woken(NamedTuple):
    """The moment that the algorithm asked to be woken at has come."""

    time: float


class Decided(NamedTuple):
    """`step` turns version `version - 1` into `version`."""

    time: float
    version: int
    step: Step


class Stopped(NamedTuple):
    time: float
    reason: str


Event: TypeAlias = Dispatched | Arrived | Looked | Lost | Left | Returned | Joined | Woken | Decided | Stopped
"""What a plan says. Together they are enough to decide everything again."""


class Waiting(NamedTuple):
    """The plan can say no more until it is told what happens next, or that it is `until`."""

    until: float


class Instant(NamedTuple):
    """What a transport reports at once. Everything in it happened at `time`, in this order."""

    time: float
    delivered: Sequence[Order] = ()
    failed: Sequence[Order] = ()
    returned: Sequence[ClientId] = ()
    joined: Sequence[ClientInfo] = ()

    @property
    def quiet(self) -> bool:
        """Time has passed, and nothing happened."""
        return not (self.delivered or self.failed or self.returned or self.joined)


class Train(NamedTuple):
    """Do the order from the vector in slot `base`; what the client ships goes to slot `out`."""

    task: int
    order: Order
    base: int
    out: int


class Fetch(NamedTuple):
    """Bring what the client of this order ships, wherever it was trained, to slot `out`."""

    task: int
    order: Order
    out: int


class Evaluate(NamedTuple):
    """Test the vector in slot `base` on one part of the test set; if `local`, on what some clients hold out."""

    task: int
    base: int
    part: int
    local: bool = False


Assignment: TypeAlias = Train | Fetch | Evaluate


class Shipped(NamedTuple):
    """How a `Train` or a `Fetch` ended. Unless it is `done` its vector must not count.

    Before it, its worker was idle for `waited` seconds. `told` is what a training function of the user's own returned.
    """

    task: int
    outcome: Literal["done", "not finite", "missing"]
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    told: Mapping[str, float] = {}


class Evaluated(NamedTuple):
    """One part of an evaluation is done; `totals` are what its task adds up over parts."""

    task: int
    totals: Tallies
    seconds: float
    waited: float = 0.0


class Score(NamedTuple):
    """What an evaluation found: numbers by name. `details` are told with them, `last` only of the last evaluation."""

    values: Mapping[str, float]
    details: Mapping[str, Any] = {}
    last: Mapping[str, Any] = {}


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


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples and labels, usually memory-mapped, as they are stored: images as uint8 (N, channels, height, width).

    Labels are classes from 0 on, below `classes`; where `classes` is 0 they are numbers, one or a row a sample.

    A model is given `(x / 255 - shift) / scale` where x is uint8 (one shift and scale a channel), `(x - shift) / scale`
    where x is floating, and x itself, as int64, where x holds token ids below `tokens` (0 is padding).
    `owners` says whose sample each training sample is, where the data knows (natural clients). `names` are those of the
    classes and `owner_names` those of the owners, each in the order of their numbers, where there are any.
    """

    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    classes: int
    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    tokens: int = 0
    owners: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()
    owner_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """Who has what: for each client the indices of its training samples.

    `clusters` are the true ones, where clients were made in clusters; no server is told.
    """

    indices: Sequence[NDArray[np.int64]]
    notes: Mapping[str, Any] = field(default_factory=dict)
    clusters: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which clients are alike, as far as a label mechanism let the server see."""

    cluster_of: Mapping[ClientId, int]
    notes: Mapping[str, Any] = field(default_factory=dict)
    centroids: NDArray[np.float64] | None = field(default=None, compare=False)
    """The means of the clusters, in the mechanism's own space; late clients go to the nearest."""
