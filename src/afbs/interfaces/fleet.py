"""Real clients, as a run on them sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from afbs.interfaces.executor import Session
from afbs.interfaces.labels import LabelMechanism
from afbs.interfaces.transport import Connection
from afbs.types import ClientId, ClientInfo, Grouping


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
