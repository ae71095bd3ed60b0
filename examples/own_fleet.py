"""Real clients over a transport of one's own: here they are threads, in real time, each with its own data.

Run it, kill it in the middle, run it again: it goes on from its folder. Put sockets where the queues are, and it is a
deployment.
"""

import queue
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import afbs
from afbs.data.digits import Digits
from afbs.interfaces import Connection, Fleet, Session, Transport
from afbs.transports.fetched import Fetched
from afbs.types import ClientId, ClientInfo, Instant, Order, Vector

CLIENTS = 12


class Net(nn.Sequential):
    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))


def train(start: Vector, x: Tensor, y: Tensor, order: Order) -> Vector:
    """What a client does with an order: a few steps from the model it was sent, and its change is kept."""
    net = Net(x.shape[1:], 10)
    vector_to_parameters(torch.from_numpy(start.copy()), net.parameters())
    for _ in range(order.epochs or 5):
        loss = cross_entropy(net(x), y)
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter.sub_(gradient, alpha=0.05)
    end: Vector = parameters_to_vector(net.parameters()).detach().numpy()
    return start - end


class Threads(Connection):
    """Orders go out, news come in. The clock is the one on the wall."""

    def __init__(self) -> None:
        digits = Digits().load()
        x = (torch.from_numpy(np.array(digits.train_x)) / 255 - digits.shift[0]) / digits.scale[0]
        y = torch.from_numpy(np.array(digits.train_y))
        self.data = [(x[number::CLIENTS], y[number::CLIENTS]) for number in range(CLIENTS)]
        self.models: dict[int, Vector] = {}
        self.vectors: dict[int, Vector] = {}
        self.news: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.busy: list[threading.Thread] = []
        self.began, self.last = time.monotonic(), 0.0

    def publish(self, version: int, params: Vector) -> None:
        self.models[version] = params.copy()

    def send(self, order: Order) -> None:
        thread = threading.Thread(target=self.work, args=(order, self.models[order.version]))
        self.busy = [thread, *(other for other in self.busy if other.is_alive())]
        thread.start()

    def work(self, order: Order, start: Vector) -> None:
        time.sleep(0.01 * (1 + order.client % 4))  # some are slower than others
        self.vectors[order.sequence] = train(start, *self.data[order.client], order)
        self.news.put(("delivered", order))

    def reachable(self, client: ClientId) -> bool:
        return True

    def watch(self, client: ClientId) -> None:
        self.news.put(("returned", client))

    def take_over(self, now: float, orders: Sequence[Order], away: Sequence[ClientId]) -> None:
        """Another server ended at this time. Its threads ended with it, so what they were doing is lost."""
        self.began, self.last = time.monotonic() - now, now
        for order in orders:
            self.news.put(("failed", order))
        for client in away:
            self.watch(client)

    def close(self) -> None:
        for thread in self.busy:
            thread.join()

    def receive(self, until: float) -> Instant | None:
        now = time.monotonic() - self.began
        try:
            kind, what = self.news.get(timeout=min(0.5, max(0.0, until - now)))
        except queue.Empty:  # look around, and ask again
            return Instant(min(until, max(self.last, time.monotonic() - self.began)))
        self.last = min(until, max(time.monotonic() - self.began, float(np.nextafter(self.last, np.inf))))
        return Instant(self.last, **{kind: [what]})


class Crew(Fleet):
    """Who they are, before training, and how their vectors are had once a step needs them."""

    connection: Threads

    def __init__(self) -> None:
        self.connection = Threads()

    def gather(self) -> tuple[Sequence[ClientInfo], None]:
        clients = [ClientInfo(number, len(y), 0) for number, (_, y) in enumerate(self.connection.data)]
        return clients, None  # nobody was asked about labels

    def gather_again(self, known: Collection[ClientId], settled: Collection[int], account: Mapping[str, Any]) -> None:
        pass  # they are all here

    def session(self, local: Session) -> Session:
        vectors = self.connection.vectors
        return Fetched(
            local, lambda order: vectors.get(order.sequence), lambda order: vectors.pop(order.sequence, None)
        )

    def account(self) -> Mapping[str, Any]:
        return {"clients": CLIENTS, "traffic": {"announced": 0, "uploaded": 0, "spared": 0, "sent": 0}}


@dataclass(frozen=True)
class Here(Transport):
    live: ClassVar[bool] = True


if __name__ == "__main__":
    result = afbs.serve(
        {"name": "threads", "data": {"name": "digits"}, "run": {"virtual_days": 0.001, "versions": 60, "in_flight": 6}},
        lambda brief: Crew(),
        "runs/threads",
        model=Net,
        algorithm={"name": "afbs", "buffer_size": 4, "clustering": False},
        transport=Here(),
        executor={"name": "inline"},
        evaluation={"points": 4},
    )
    assert afbs.verify(result.folder, model=Net, transport=Here()).good  # decided again, from its record alone
    steps = result.summary()["versions"]
    print(f"{result.final:.1%} of the digits after {steps} steps. {result.folder}")
