"""From an order to a step. `Order` and `Update` are named tuples because a long plan makes tens of millions of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from afbs.types.errors import UserError
from afbs.types.numbers import ClientId, Facts


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
