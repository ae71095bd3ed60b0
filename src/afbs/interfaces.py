"""What the parts ask of each other. An algorithm has two halves that must not blur.

*Deciding* (`init`, `dispatch`, `receive`, `lost`, `stalled`, `joined`, `weigh`) sees metadata and returns new state.
*Computing* (`begin`, `apply`) sees vectors and returns new vectors. Both halves are pure: arguments are never
changed, and every draw comes from the key that is handed in. Because deciding needs no vector, the engine can run
it ahead in virtual time, and what it drops is never trained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from afbs.seeds import Key
from afbs.types import (
    ClientId,
    ClientInfo,
    Dataset,
    Evaluated,
    Grouping,
    Instant,
    Job,
    Matrix,
    Memory,
    Order,
    Split,
    Step,
    Trained,
    Update,
    Vector,
)

S = TypeVar("S")


class Pool(Protocol):
    """The clients as an algorithm sees them when it may hand out work."""

    @property
    def room(self) -> int:
        """How many more jobs may be under way."""

    @property
    def busy(self) -> int:
        """How many jobs are under way."""

    def sample(self, number: int, key: Key) -> list[ClientId]:
        """Up to `number` different idle clients, drawn uniformly. Drawing does not take them: dispatching does."""


class LocalRule(ABC):
    """What an algorithm's clients add to the gradient, and what they remember between two of their jobs.

    The arrays are flat vectors of whatever library the client trains with; only arithmetic operators may be used.
    """

    stateful: ClassVar[bool] = False

    @abstractmethod
    def gradient(self, params: Any, start: Any, state: Any) -> Any | None:
        """The term to add to the gradient at `params`, or None. `start` is the model the job began with."""

    def finish(self, state: Any, start: Any, end: Any) -> Any:
        """The client's state after a job. It was zero before its first."""
        return state


class Plain(LocalRule):
    """Nothing is added: the client minimises its own loss."""

    def gradient(self, params: Any, start: Any, state: Any) -> None:
        return None


class Algorithm(ABC, Generic[S]):
    """A frozen dataclass of hyper-parameters. Subclass it once, finally; share code through functions in `core`."""

    holds: ClassVar[bool] = True
    """Whether a client waits, once its update has arrived, for the step that uses or drops it."""

    looks: ClassVar[bool] = False
    """Whether `receive` asks for an update's content (`update.delta()`). It may; then the engine cannot run ahead, and
    an interrupted run starts anew: its decisions cannot be replayed from the seed alone."""

    @property
    def ships(self) -> Literal["delta", "end"]:
        """What a client sends and `apply` is given: `delta` (start minus end) or the trained model itself."""
        return "delta"

    @property
    def local(self) -> LocalRule:
        return Plain()

    @property
    def clustered(self) -> bool:
        """Whether `ClientInfo.cluster` is needed. If not, no client is ever asked about its labels."""
        return False

    @property
    def quorum(self) -> int:
        """How many updates a step waits for; more than can be under way would wait for ever."""
        return 1

    # decide: metadata only

    @abstractmethod
    def init(self, clients: Sequence[ClientInfo]) -> S: ...

    def dispatch(self, state: S, pool: Pool, key: Key) -> tuple[S, list[ClientId]]:
        """Who trains next, asked after every instant. The usual answer: whoever there is room for."""
        return state, pool.sample(pool.room, key)

    @abstractmethod
    def receive(self, state: S, update: Update, key: Key) -> tuple[S, Step | None]:
        """One update arrived. `key` is the same for all arrivals between two steps."""

    def lost(self, state: S, client: ClientId) -> tuple[S, Step | None]:
        """A job will never arrive: its client died or timed out."""
        return state, None

    def stalled(self, state: S) -> tuple[S, Step | None]:
        """Nothing is under way and nobody can be asked: step with what there is, or the run ends here."""
        return state, None

    def joined(self, state: S, client: ClientInfo) -> S:
        """A client came late, or its cluster changed."""
        return state

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        """The weight of each used update. Asked again without those whose vector turns out not finite."""
        return tuple(1.0 / len(used) for _ in used)

    # compute: vectors only

    def begin(self, params: Vector) -> Memory:
        """What the server remembers before the first step."""
        return {}

    @abstractmethod
    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        """The next model. `vectors` has a row for each of `step.used`, at least one, and is only lent: copy what stays.

        If not one vector of a step is finite, there is nothing to apply: the model and the memory stay as they are.
        """

    def memory_bytes(self, parameters: int, clients: int) -> int:
        """How much memory the vectors that `begin` and `apply` keep will need at most."""
        return 0


class Latency(ABC):
    """How long a job takes, from the order to the arrival, in virtual seconds.

    `per` says how often it is drawn: the key that `duration` gets is the client's own, or one for each job.
    """

    per: Literal["client", "job"]

    @abstractmethod
    def duration(self, client: ClientInfo, start: float, key: Key) -> float: ...


class Availability(ABC):
    """When a client can be reached, and when it vanishes in the middle of a job."""

    @abstractmethod
    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        """The first moment from `time` on at which the client can be given work; infinity if never."""

    @abstractmethod
    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        """The moment between `start` and `finish` at which the client is lost with its job, or None."""

    def absence(self, client: ClientInfo, key: Key) -> float:
        """How long a client that vanished from this job cannot be reached, beyond what `back` says."""
        return 0.0


class Transport(ABC):
    """Carries orders to clients and brings back news. Virtual or real time is its affair alone."""

    @abstractmethod
    def send(self, order: Order) -> None: ...

    @abstractmethod
    def reachable(self, client: ClientId) -> bool:
        """If not, the client is reported as returned when it is again."""

    @abstractmethod
    def receive(self) -> Instant | None:
        """The next instant at which something happened, or None if nothing is under way and nobody will return."""


class Executor(ABC):
    """Where jobs are computed. Vectors live where its workers can reach them; only numbers travel."""

    workers: int
    depth: int
    """How many tasks may be under way at once; enough that no worker waits while the server thinks."""

    @abstractmethod
    def initial(self) -> Vector:
        """The model before training."""

    @abstractmethod
    def publish(self, vector: Vector) -> int:
        """Make a vector readable by every worker, under a number."""

    @abstractmethod
    def read(self, slot: int) -> Vector:
        """A view of a published vector; only good until it is retired."""

    @abstractmethod
    def retire(self, slot: int) -> None: ...

    @abstractmethod
    def block(self, rows: int) -> tuple[int, Matrix]:
        """Room for the results of one step: the slot of its first row (the next row has the next number), and all of
        them as one matrix, so that a weighted sum is one product."""

    @abstractmethod
    def release(self, first: int) -> None: ...

    @abstractmethod
    def train(self, task: int, job: Job, base: int, out: int, state: tuple[int, int] | None = None) -> None:
        """Train from slot `base` and write the vector to slot `out`; `state` names where the client's state is read
        and where its new one goes."""

    @abstractmethod
    def evaluate(self, task: int, base: int, part: int) -> None: ...

    @property
    @abstractmethod
    def peak_bytes(self) -> int:
        """The most memory that vectors have taken at a time."""

    @abstractmethod
    def collect(self) -> list[Trained | Evaluated]:
        """What has been finished; waits for at least one while anything is under way."""

    @abstractmethod
    def close(self) -> None: ...


class Source(ABC):
    """A data set that can be loaded. A frozen dataclass of its settings."""

    @abstractmethod
    def load(self) -> Dataset: ...


class Partition(ABC):
    """How the training samples are spread over the clients. A frozen dataclass of its settings."""

    @abstractmethod
    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split: ...


class LabelMechanism(ABC):
    """How the server learns which clients have alike labels, and what it learns besides.

    One that asks clients something is an `afbs.privacy.halves.TwoHalves`. One that has a method `exposure`
    (`afbs.privacy.exposure`) is attacked by `afbs audit`.
    """

    @abstractmethod
    def group(self, counts: Mapping[ClientId, NDArray[np.int64]], key: Key, most: int = 10) -> Grouping:
        """`counts` are the clients' label counts; the mechanism's file says what of them leaves a client.

        `most` bounds the number of clusters where it is to be chosen: half the buffer, or nothing would be dropped.
        """
