"""What the parts ask of each other. An algorithm has two halves that must not blur.

*Deciding* (`init`, `dispatch`, `receive`, `lost`, `wake`, `woken`, `stalled`, `joined`, `weigh`) sees metadata and
returns new state. *Computing* (`begin`, `apply`, `look`) sees vectors. Both halves are pure: arguments are never
changed, and every draw comes from the key that is handed in. Because deciding needs no vector, the engine can run it
ahead in virtual time, and what it drops is never trained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from afbs.metrics import LOSS, Metric
from afbs.seeds import Key
from afbs.types import (
    Ask,
    Assignment,
    ClientId,
    ClientInfo,
    Dataset,
    Evaluated,
    Facts,
    Grouping,
    Instant,
    Matrix,
    Memory,
    Order,
    Score,
    Shipped,
    Split,
    Step,
    Tallies,
    Update,
    UserError,
    Vector,
)

S = TypeVar("S")


class Pool(Protocol):
    """The clients as an algorithm sees them when it may hand out work. Looking takes nobody: dispatching does."""

    @property
    def time(self) -> float:
        """Now, in seconds since the run began."""

    @property
    def version(self) -> int:
        """The version that a job begins with."""

    @property
    def room(self) -> int:
        """How many more jobs may be under way."""

    @property
    def busy(self) -> int:
        """How many jobs are under way."""

    def sample(self, number: int, key: Key) -> list[ClientId]:
        """Up to `number` different clients that are idle and can be reached, drawn uniformly."""

    def __iter__(self) -> Iterator[ClientId]:
        """Every client that is idle and can be reached, one at a time, in no order that means anything."""

    def __contains__(self, client: object) -> bool:
        """Whether this client is idle and can be reached."""


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

    @property
    def adds(self) -> bool:
        """Whether a step moves the model by the weighted sum of its updates, so that its weights say how far."""
        return False

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
    def awaits(self) -> int:
        """How many updates a step waits for; more than can be under way would wait for ever."""
        return 1

    @property
    def looks(self) -> bool:
        """Whether it decides by content: it has a `look`, and `receive` may ask for `update.facts()`. It may; then the
        engine cannot run ahead, and what it drops has been trained."""
        return type(self).look is not Algorithm.look

    # decide: metadata only

    @abstractmethod
    def init(self, clients: Sequence[ClientInfo]) -> S: ...

    def dispatch(self, state: S, pool: Pool, key: Key) -> tuple[S, Sequence[ClientId | Ask]]:
        """Who trains next, asked after every instant; `Ask` says how much. Usually whoever there is room for."""
        return state, pool.sample(pool.room, key)

    @abstractmethod
    def receive(self, state: S, update: Update, key: Key) -> tuple[S, Step | None]:
        """One update arrived. `key` is the same for all arrivals between two steps."""

    def lost(self, state: S, order: Order) -> tuple[S, Step | None]:
        """This order's update will never arrive: its client died or timed out."""
        return state, None

    def wake(self, state: S) -> float | None:
        """The moment at which to be woken if nothing changes until then, in seconds since the run began."""
        return None

    def woken(self, state: S, time: float, key: Key) -> tuple[S, Step | None]:
        """That moment has come, after everything that arrived by then was received."""
        return state, None

    def stalled(self, state: S) -> tuple[S, Step | None]:
        """Nothing is under way and nobody can be asked: step with what there is, or the run ends here."""
        return state, None

    def joined(self, state: S, client: ClientInfo) -> S:
        """A client came late, or its cluster changed."""
        return state

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        """The weight of each used update. Asked again without those whose vector turns out not finite or missing."""
        return tuple(1.0 / len(used) for _ in used)

    # compute: vectors only

    def begin(self, params: Vector) -> Memory:
        """What the server remembers before the first step."""
        return {}

    @abstractmethod
    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        """The next model. Everything is lent and read-only; `vectors` has a row for each of `step.used`, at least one.

        If not one vector of a step can be used, there is nothing to apply: the model and the memory stay as they are.
        """

    def look(self, memory: Memory, params: Vector, updates: Sequence[Update], vectors: Matrix) -> Facts:
        """What `receive` may know of the content of `updates`, as numbers. `vectors` has a row each (start minus end).

        An algorithm that has this method decides by content. What it returns is recorded, so that a run can be taken
        up again, and decided again, without the vectors.
        """
        raise NotImplementedError

    def memory_bytes(self, parameters: int, clients: int) -> int:
        """How much memory the vectors that `begin` and `apply` keep will need at most."""
        return 0


class Latency(ABC):
    """How long a job takes, from the order to the arrival, in virtual seconds.

    `per` says how often it is drawn: once a client, which then always takes as long, or anew for each job. `work` is
    how many times the usual work an order asks for, and is only given where it asks for another amount (`Ask`).
    """

    per: Literal["client", "job"]

    @abstractmethod
    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float: ...


class Availability(ABC):
    """When a client can be reached, and when it vanishes in the middle of a job."""

    steady: ClassVar[bool] = False
    """Whether everybody can be reached at any time and nobody vanishes, so that nobody need ask."""

    @abstractmethod
    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        """The first moment from `time` on at which the client can be given work; infinity if never."""

    @abstractmethod
    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        """The moment between `start` and `finish` at which the client is lost with its job, or None."""

    def absence(self, client: ClientInfo, key: Key) -> float:
        """How long a client that vanished from this job cannot be reached, beyond what `back` says."""
        return 0.0

    def joins(self, client: ClientInfo) -> float:
        """When the server first hears of the client: at the beginning, or later; infinity if never."""
        return 0.0


class Connection(ABC):
    """Carries orders to clients and brings back news. Virtual or real time is its affair alone."""

    ahead: ClassVar[bool] = False
    """Whether the future may be asked for before the present has been computed: virtual time."""

    @abstractmethod
    def send(self, order: Order) -> None: ...

    @abstractmethod
    def reachable(self, client: ClientId) -> bool:
        """Whether an order could be sent to this client now. Asking changes nothing."""

    @abstractmethod
    def watch(self, client: ClientId) -> None:
        """Report this client as returned once it can be reached again."""

    @abstractmethod
    def receive(self, until: float) -> Instant | None:
        """The next instant at which something happened, later than the last one; nothing later than `until`.

        If nothing happens by then, an empty instant at `until`. In real time there may be an empty instant
        sooner, so that its caller can look around. None if nothing is under way and nobody will return: virtual time
        would stand still.
        """

    def publish(self, version: int, params: Vector) -> None:  # noqa: B027 - virtual time has no use for it
        """This version of the model exists; orders that begin with it may follow. Real clients must be sent it."""

    def take_over(self, time: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        """Go on from `time`, where another connection ended: these orders are out, perhaps, and these clients watched.

        An order was written down before it was sent, so a real client may or may not have it.
        """
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Nothing more will be sent or asked."""


class Scene(NamedTuple):
    """What a transport is told of the run it serves. Simulated clients behave as `latency` and `availability` say;
    `work` is how many times the usual work an order asks for."""

    clients: Sequence[ClientInfo]
    latency: Latency
    availability: Availability
    seed: int
    work: Callable[[Order], float] | None = None


class Transport:
    """How clients are reached. A frozen dataclass of its settings."""

    live: ClassVar[bool] = False
    """Whether the clients are real: how long they take and when they are there is then their affair."""

    def connect(self, scene: Scene) -> Connection:
        """To simulated clients. Real ones are a `Fleet`, and `afbs.serve` is told how to reach it."""
        raise NotImplementedError


class Store(ABC):
    """Where the vectors of a session live: rows of one model's size under numbers, its slots."""

    @abstractmethod
    def put(self, vector: Vector) -> int:
        """Keep a copy of a vector where every worker can read it."""

    @abstractmethod
    def get(self, slot: int) -> Vector:
        """A view; only good until the slot is dropped."""

    @abstractmethod
    def drop(self, slot: int) -> None: ...

    @abstractmethod
    def block(self, rows: int) -> tuple[int, Matrix]:
        """Room for the results of one step: the slot of its first row (the next row has the next number), and all of
        them as one matrix, so that a weighted sum is one product."""

    @abstractmethod
    def release(self, first: int) -> None:
        """Give a block back."""

    @property
    @abstractmethod
    def peak_bytes(self) -> int:
        """The most memory that vectors have taken at a time."""


class Session(ABC):
    """The work of one run on some workers. Only numbers travel; vectors are in the store."""

    store: Store
    workers: int
    depth: int
    """How many tasks may be under way at once; enough that no worker waits while the server thinks."""

    @abstractmethod
    def initial(self) -> Vector:
        """The model before training."""

    @abstractmethod
    def submit(self, task: Assignment) -> None: ...

    @abstractmethod
    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        """What has been finished. Waits for at least one while anything is under way, but not longer than `seconds`."""

    @abstractmethod
    def settle(self, order: Order, kept: bool) -> None:
        """The step of this order has been applied: from now on its client remembers what it learned then, if `kept`."""

    @abstractmethod
    def remembered(self) -> Mapping[ClientId, Vector]:
        """What clients remember, as far as it is kept here, for a checkpoint."""

    @abstractmethod
    def restore(self, remembered: Mapping[ClientId, Vector]) -> None:
        """Let clients remember what a checkpoint says."""

    @abstractmethod
    def close(self) -> None: ...


class WorkerPool(ABC):
    """Workers that have been started, or are starting, and wait for a session."""

    @abstractmethod
    def session(self, workload: Any) -> Session:
        """Brief everybody on a run's work. One session at a time."""

    @abstractmethod
    def close(self) -> None:
        """Lets everybody go at once, whatever they are doing; again does nothing."""


class Executor(ABC):
    """Who computes. A frozen dataclass of its settings."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How many workers there will be."""

    @abstractmethod
    def start(self) -> WorkerPool:
        """Workers that start up while the caller still prepares their work."""


class Brief(NamedTuple):
    """What a fleet is told of the run it serves. `mechanism` is None if nobody need be asked about labels, and finds at
    most `most` clusters."""

    folder: Path
    size: int
    classes: int
    task: str
    """A digest of all that server and clients must agree on."""
    mechanism: LabelMechanism | None
    most: int
    seed: int
    metrics: Sequence[str] = ()
    """What clients measure on what they hold out; empty if they hold out nothing."""


class Fleet(ABC):
    """Real clients, as a run on them sees them. Whatever is not on disk when the server is killed is asked again."""

    tests: ClassVar[bool] = False
    """Whether clients test models on what they hold out: its session takes a local `Evaluate`, and need not wait for
    everybody."""
    connection: Connection
    remark: Callable[[Mapping[str, Any]], None]
    """Given a line for the record that decides nothing: `event` is `remark` or `fleet`."""

    @abstractmethod
    def gather(self) -> tuple[Sequence[ClientInfo], Grouping | None]:
        """Wait for enough clients and ask them what must be known before training."""

    @abstractmethod
    def gather_again(self, known: Collection[ClientId], settled: Collection[int], account: Mapping[str, Any]) -> None:
        """Find the clients of a run that was killed, of whom the record has these. The updates of the `settled` orders
        are used, dropped or lost; `account` is the last one in the record, empty if there was none."""

    @abstractmethod
    def session(self, local: Session) -> Session:
        """Vectors come from the clients; whatever else there is to compute is left to `local`."""

    @abstractmethod
    def account(self) -> Mapping[str, Any]:
        """How it stands, for the record: how many `clients` can be reached, and `traffic`, the bytes so far: of vectors
        `announced`, `uploaded` and `spared`, and of models `sent`. Besides, whatever it wants to be told again."""


class Source(ABC):
    """A data set that can be loaded. A frozen dataclass of its settings."""

    @abstractmethod
    def load(self) -> Dataset: ...


class Partition(ABC):
    """How the training samples are spread over the clients. A frozen dataclass of its settings."""

    @abstractmethod
    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split: ...


class Task(ABC):
    """What a batch is, what its loss is and what is measured. A frozen dataclass of its settings.

    A batch is samples `x`, as the network is given them, and their labels `y`, both tensors; `model` gives the outputs
    for `x`. Two methods are enough: `loss`, and `measure`.
    """

    @property
    @abstractmethod
    def metrics(self) -> Sequence[Metric]:
        """What is recorded of an evaluation; a plain attribute will do. The first is the one to watch: it decides what
        is best, and tables show it."""

    target: ClassVar[float | None] = None
    """The `evaluation.target` where none is set."""

    native: ClassVar[bool] = False
    """Whether the loss is the mean cross-entropy over classes, which the native kernels have built in."""

    @abstractmethod
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        """The mean loss over a batch, as a tensor of no dimension. Its gradient is what a client follows."""

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        """For each name a tensor with one number a sample (or a token, or whatever counts); their means are recorded.

        `loss` need not be among them.
        """
        return {}

    def score(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """A number for each of `metrics`, made of the means over all samples; as they are, unless something is made of
        them: a root, say."""
        return means

    def sizes(self, dataset: Dataset) -> tuple[tuple[int, ...], int]:
        """The shape of one sample as a network is given it, and how many numbers it gives for each."""
        wide = int(np.prod(dataset.train_y.shape[1:]))
        return tuple(dataset.train_x.shape[1:]), dataset.classes or wide

    def check(self, dataset: Dataset) -> None:  # noqa: B027 - most take whatever there is
        """Refuses data that the task cannot be done with, by a UserError."""

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:  # noqa: B027 - only a task knows
        """Refuses a network whose outputs for two samples do not fit the task, by a UserError."""

    # what `measure` and `score` are for; a task that adds up more than numbers has its own

    def tally(self, model: Any, x: Any, y: Any) -> Tallies:
        """What is added up over batches: of each number its sum, and how many there were."""
        found: Any = self.measure(model, x, y)
        if not isinstance(found, Mapping):
            kind = "nothing" if found is None else f"a {type(found).__name__}"
            raise UserError(f"`task`: {type(self).__name__}.measure must return numbers by their names, got {kind}.")
        totals = {name: self._total(name, values) for name, values in found.items()}
        if LOSS.name not in totals and any(metric.name == LOSS.name for metric in self.metrics):
            totals[LOSS.name] = np.array([float(self.loss(model, x, y)) * len(x), len(x)])
        return totals

    def conclude(self, totals: Tallies) -> Score:
        """What those come to."""
        return Score(self.score({name: float(total[0] / max(1, total[1])) for name, total in totals.items()}))

    def _total(self, name: str, values: Any) -> NDArray[np.float64]:
        if not getattr(values, "ndim", 0):
            raise UserError(
                f"`task`: {type(self).__name__}.measure must give one number a sample for {name!r}, not their mean or "
                "sum: that is taken over all batches."
            )
        values = values.detach().double().cpu().numpy() if hasattr(values, "detach") else np.asarray(values, np.float64)
        return np.array([values.sum(), values.size])


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
