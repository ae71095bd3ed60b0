"""A fleet of Flower nodes, in real time. Nothing here needs Flower until a connection is made.

messages    what passes between the server and a node, checked on both sides
wire        questions out, answers back: the only file that calls Flower's Grid
roster      who is who: nodes come and go, clients stay
attendance  who can be given work
entrance, labels        how nodes come in, and the label mechanism's conversation with them
orders, inbox, uploads  what is asked of clients, what came along with the answer, and what should
exams       what clients find on the samples they hold out
fleet       all of that, one turn after another
connection, session     the two faces of the fleet that the engine sees
node, shelf             a node's side: training, and what waits on its disk
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Ge, Gt, Le

from afbs.interfaces import Connection, Scene, Transport
from afbs.types import UserError


@final
@dataclass(frozen=True)
class Flower(Transport):
    """Real clients on Flower nodes. A run on them is started with `flwr run`; see docs/deploy.md.

    Training begins when `clients` nodes have answered, for which `gather_seconds` are given. An order that is not
    answered within `patience` seconds is lost, a vector that does not come within `fetch_seconds` is left out of its
    step, a client that does not say within `test_seconds` how a model does is left out of its test, and the run ends
    when nothing was heard of anybody for `silence` seconds. A node keeps vectors that wait for up to `hold_days`, and
    at most `hold_megabytes` of them.
    """

    live: ClassVar[bool] = True

    upload: Literal["eager", "on_demand", "auto"] = "eager"
    """Vectors come with the announcement, wait until they are fetched, or whichever is cheaper."""
    clients: Annotated[int, Ge(1), Le(1_000_000)] = 2
    """Training begins when so many nodes have answered."""
    gather_seconds: Annotated[float, Gt(0)] = 600.0
    """For which they are given so long."""
    patience: Annotated[float, Gt(0), Le(30 * 86_400)] = 3600.0
    """Seconds after which an order without an answer is lost; keep it well above the training time."""
    fetch_seconds: Annotated[float, Gt(0), Le(86_400)] = 180.0
    """Seconds after which a step does without a vector that does not come."""
    test_seconds: Annotated[float, Gt(0), Le(86_400)] = 300.0
    """Seconds after which a test on what clients hold out does without those who did not answer."""
    silence: Annotated[float, Gt(0)] = inf
    """The run ends when nobody was heard for so many seconds."""
    poll_seconds: Annotated[float, Gt(0), Le(60)] = 0.5
    """How often the SuperLink is asked for replies."""
    hold_days: Annotated[float, Gt(0)] = 7.0
    """How long a node keeps what was not fetched."""
    hold_megabytes: Annotated[float, Gt(0)] = 2048.0
    """How much of it."""

    def connect(self, scene: Scene) -> Connection:
        raise UserError(
            "`transport.name` = 'flower' needs a fleet: start this with `flwr run`, as docs/deploy.md says. To "
            "simulate it instead: --set transport.name=simulated"
        )
