"""The tables that are not a part's, and the whole of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from afbs.interfaces import (
    Algorithm,
    Availability,
    Executor,
    LabelMechanism,
    Latency,
    Partition,
    Source,
    Task,
    Transport,
)
from afbs.types import ModelChoice, Training, UserError


@dataclass(frozen=True)
class RunSettings:
    """Table `[run]`: how long, with how many at once, and from which seed.

    It ends after `virtual_days`, or after so many `versions` (0: however many there are).
    """

    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 1
    """Everything that is drawn follows from it."""
    virtual_days: Annotated[float, Gt(0), Le(36_525)] = 20.0
    """How long the federation runs, in virtual time; at most a century."""
    in_flight: Annotated[int, Ge(1)] = 120
    """How many clients are at work at any time; a synchronous algorithm's cohort."""
    versions: Annotated[int, Ge(0)] = 0
    """Ends the run after so many versions of the model, with the instant that makes the last of them; 0 is never."""
    stop_when_lr_below: Annotated[float, Ge(0)] = 0.0
    """Ends the run once clients would train with a smaller learning rate; 0 is never."""
    device: str = "cpu"
    """Where workers train, as torch names it."""
    checkpoint_seconds: Annotated[float, Ge(0)] = 60.0
    """Real seconds between two checkpoints, at most; small ones are written sooner, a megabyte a second; 0: one at
    every version."""

    def __post_init__(self) -> None:
        if self.device.partition(":")[0] == "meta":
            raise UserError("`run.device` = 'meta' holds no numbers to train with. 'cpu' would do.")

    @property
    def horizon(self) -> float:
        return self.virtual_days * 86_400


@dataclass(frozen=True)
class Evaluation:
    """Table `[evaluation]`: at which virtual times the model is tested. `every` adds every so many versions.

    With `validation`, that share of the training samples is set aside before clients are made, and the model is tested
    on it: the test set is not looked at. With `held_out`, every client sets that share of its own samples aside, and
    the model is tested on each client's at `held_out_points` moments.
    """

    points: Annotated[int, Ge(1), Le(100_000)] = 150
    """Moments of virtual time at which the model is tested, besides the start."""
    spacing: Literal["log", "linear"] = "log"
    """Denser at the beginning, or evenly."""
    every: Annotated[int, Ge(0)] = 0
    """Also after every so many versions; 0 is never."""
    target: Annotated[float, Ge(-1e30), Le(1e30)] | None = None
    """The level of the task's first metric whose first moment tables report; unless told, what the task says."""
    validation: Annotated[float, Ge(0), Lt(1)] = 0.0
    """This share of the training samples is set aside, and the model tested on it instead of the test set."""
    held_out: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Every client sets this share of its samples aside, at least one where it has two, and is tested on them."""
    held_out_points: Annotated[int, Ge(1), Le(100_000)] = 10
    """At so many moments of the run, besides its start, clients are tested: of its versions where they end it."""

    def grid(self, horizon: float) -> list[float]:
        """The initial model, `points` moments, the last of them the horizon."""
        shares = [(i + 1) / self.points for i in range(self.points)]
        if self.spacing == "log":
            shares = [0.001 ** (1 - share) for share in shares]
        return [0.0, *(round(horizon * share, 3) for share in shares)]

    def client_grid(self, horizon: float) -> list[float]:
        """The moments at which clients are tested on what they hold out."""
        number = self.held_out_points
        return [round(horizon * i / number, 3) for i in range(number + 1)] if self.held_out else []


@dataclass(frozen=True)
class Record:
    """Table `[record]`: what is written beyond the usual. `labels` are the clients' true label distributions."""

    labels: bool = False
    """Write the clients' true label distributions into `meta.json`, for the report of a simulation."""


@dataclass(frozen=True)
class Config:
    """Everything a run depends on. `tables` is the same as it is written to `config.toml`."""

    name: str
    run: RunSettings
    data: Source
    partition: Partition
    model: ModelChoice
    training: Training
    latency: Latency
    availability: Availability
    clusters: LabelMechanism
    task: Task
    algorithm: Algorithm[Any]
    transport: Transport
    executor: Executor
    evaluation: Evaluation
    record: Record
    tables: Mapping[str, Any]
    modules: tuple[str, ...] = field(default=(), compare=False)
    """The folders in which `module:Name` was looked for first; `load` takes them for a copy that lies elsewhere."""
