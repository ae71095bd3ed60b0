"""What is asked of clients: orders on their way, what came of them, and what is kept until their step is taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from flwr.app import ArrayRecord

from afbs.transports.flower import messages
from afbs.transports.flower.inbox import Inbox
from afbs.transports.flower.uploads import Traffic, Uploads
from afbs.transports.flower.wire import Failure, Heard
from afbs.types import ClientId, Instant, Order, Vector

if TYPE_CHECKING:
    from afbs.transports.flower.fleet import FlowerFleet


@final
class OrderBook:
    """Orders are known by their number."""

    def __init__(self, fleet: FlowerFleet):
        self._fleet = fleet
        self._bytes = 4 * fleet.brief.size
        self.inbox = Inbox(fleet.brief.folder / "inbox", fleet.brief.size)
        self.uploads = Uploads(fleet.settings.upload)
        self.moved = Traffic()
        self.out: set[int] = set()
        self.announced: dict[int, messages.Done] = {}
        """What nodes said of orders whose step has not been taken."""
        self.state_of: dict[ClientId, int] = {}
        """The order at whose end each client's memory stands, where clients remember."""
        self._models: dict[int, ArrayRecord] = {}
        self._let_go: dict[ClientId, set[int]] = {}
        """Orders whose vectors a node need not keep any more; told with its next order."""
        self._adopted: dict[int, tuple[Order, float]] = {}
        """Orders of a server that was killed, until their nodes say whether they have them; and for how long."""

    def publish(self, version: int, params: Vector) -> None:
        """From now on orders begin with this version; those that were adopted may still need theirs."""
        wanted = {order.version for order, _ in self._adopted.values()}
        self._models = {kept: model for kept, model in self._models.items() if kept in wanted}
        self._models[version] = messages.packed(params)

    def send(self, order: Order) -> None:
        fleet = self._fleet
        self.out.add(order.sequence)
        node, model = fleet.roster.node_of.get(order.client), self._models.get(order.version)
        if node is None or model is None:
            self.fail(order, "its client cannot be reached" if node is None else "its model is not kept any more")
            return
        work = messages.Job(
            fleet.roster.experiment,
            order,
            self.uploads.now(),
            self.state_of.get(order.client, -1),
            sorted(self._let_go.pop(order.client, ())),
            fleet.brief.classes,
            int(fleet.settings.hold_megabytes * 1e6),
            fleet.settings.hold_days * 86_400,
        )
        asked = fleet.clock.now()
        self.moved.sent += self._bytes
        fleet.wire.ask(
            node,
            messages.TRAIN,
            messages.job(work, model),
            fleet.settings.patience,
            lambda answer: self._trained(order, answer, asked),
            lambda answer: self._late(order, answer),
        )

    def _trained(self, order: Order, answer: Heard, asked: float) -> None:
        attendance = self._fleet.attendance
        if isinstance(answer, Failure):
            if answer.silent:
                attendance.silent(order.client)
                self._fleet.entrance.ask_again(order.client)
            elif answer.gone:
                attendance.gone(order.client)
            else:
                attendance.failed(order.client)
            self.fail(order, answer.why)
            return
        try:
            done = messages.done_of(answer)
            if done.order != order.sequence or done.bytes != self._bytes:
                raise messages.BadMessageError("it answers another order, or has a vector of another size")
            uploaded = messages.has_vector(answer)
            vector = messages.vector_of(answer, self._fleet.brief.size) if uploaded else None
        except messages.BadMessageError as error:
            attendance.failed(order.client)
            self.fail(order, f"a bad answer: {error}")
            return
        attendance.did(order.client)
        self.uploads.arrived(uploaded, self._fleet.clock.now() - asked - done.seconds)
        self.announced[order.sequence] = done
        self._deliver(order, vector)

    def _late(self, order: Order, answer: Heard) -> None:
        """Its order was given up; but the client is there again."""
        what = "an error, too late" if isinstance(answer, Failure) else "an answer, too late"
        self._fleet.note(what, client=order.client, order=order.sequence)
        self._fleet.attendance.heard(order.client)

    def _deliver(self, order: Order, vector: Vector | None = None) -> None:
        """The order is done. A vector that came along is safe on disk before anybody hears of it."""
        self.out.discard(order.sequence)
        self.moved.announced += self._bytes
        if vector is not None:
            self.moved.uploaded += self._bytes
            self.inbox.put(order.sequence, vector)
        self._fleet.news.append(Instant(0.0, delivered=[order]))

    def fail(self, order: Order, why: str) -> None:
        self.out.discard(order.sequence)
        self.let_go(order.client, [order.sequence])
        self._fleet.note(why, client=order.client, order=order.sequence)
        self._fleet.news.append(Instant(0.0, failed=[order]))

    def settle(self, order: Order, *, used: bool, fetched: bool, kept: bool) -> None:
        """Its step has been taken: nobody will ask for its vector again, once the version is safe."""
        number = order.sequence
        if not used and not fetched and not self.inbox.has(number):
            self.moved.spared += self._bytes
        self.uploads.settled(dropped=not used)
        self.announced.pop(number, None)
        self.let_go(order.client, [number])
        if kept:
            self.state_of[order.client] = number

    def let_go(self, client: ClientId, orders: Iterable[int]) -> None:
        self._let_go.setdefault(client, set()).update(orders)

    # orders of a server that was killed

    def adopt(self, orders: Iterable[Order]) -> None:
        fleet, kept = self._fleet, set(self.inbox.orders())
        for order in orders:
            if order.sequence in kept:
                fleet.news.append(Instant(0.0, delivered=[order]))
                continue
            self.out.add(order.sequence)
            self._adopted[order.sequence] = order, fleet.clock.now() + fleet.settings.patience
            held = fleet.entrance.held.get(order.client)
            if held is not None and fleet.attendance.reachable(order.client):
                self.resolve(order.client, held)

    def resolve(self, client: ClientId, held: Iterable[int]) -> None:
        """A node said which orders wait on its disk. What it does not have, it never got, or could not finish."""
        kept = set(held)
        for order, _ in list(self._adopted.values()):
            if order.client != client:
                continue
            del self._adopted[order.sequence]
            if order.sequence in kept:
                self._deliver(order)
            else:
                self.send(order)

    def turn(self) -> None:
        now = self._fleet.clock.now()
        for order, deadline in list(self._adopted.values()):
            if now >= deadline:
                del self._adopted[order.sequence]
                self.fail(order, "its node did not come back")
