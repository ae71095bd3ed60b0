"""What decides and what computes: an algorithm, the pool it draws from, and what its clients add to their gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from afbs.seeds import Key
from afbs.types import Ask, ClientId, ClientInfo, Facts, Matrix, Memory, Order, Step, Update, Vector

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

    The arrays are flat vectors of whatever library the client trains with; only arithmetic operators may be used. They
    may be parts of the model: what a rule makes of a number must not depend on its neighbours.
    """

    stateful: ClassVar[bool] = False

    @abstractmethod
    def gradient(self, params: Any, start: Any, state: Any) -> Any | None:
        """The term to add to the gradient at `params`, or None from a rule that never adds any. `start` is the model
        the job began with."""

    def finish(self, state: Any, start: Any, end: Any) -> Any:
        """The client's state after a job. It was zero before its first."""
        return state


class Plain(LocalRule):
    """Nothing is added: the client minimises its own loss."""

    def gradient(self, params: Any, start: Any, state: Any) -> None:
        return None


class Algorithm(ABC, Generic[S]):
    """A frozen dataclass of hyper-parameters. Subclass it once, finally; share code through `core`."""

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
