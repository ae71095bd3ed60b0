"""What the server knows and hears of all nodes: membership, orders, vectors. One thread, one turn after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, final

from flwr.serverapp import Grid

from afbs.interfaces import Brief, Session
from afbs.interfaces import Fleet as AnyFleet
from afbs.transports.flower import Flower, messages
from afbs.transports.flower.connection import FlowerConnection
from afbs.transports.flower.entrance import Entrance
from afbs.transports.flower.inbox import Inbox
from afbs.transports.flower.roster import Roster, load
from afbs.transports.flower.session import FlowerSession
from afbs.transports.flower.uploads import Traffic, Uploads
from afbs.transports.flower.wire import Clock, Failure, Heard, RealClock, Wire
from afbs.types import ClientId, ClientInfo, Grouping, Instant, Order, RunError, Vector

_CENSUS_SECONDS = 3.0
_AGAIN_SECONDS = 30.0
"""How long a server that was started again waits for its nodes to say hello before it goes on with those that did."""


_FAILURES = 3
_BENCH_SECONDS = 30.0


@final
class FlowerFleet(AnyFleet):
    """`tell` is for whoever watches; what belongs into the record goes to `remark`."""

    connection: FlowerConnection

    def __init__(
        self,
        grid: Grid,
        settings: Flower,
        brief: Brief,
        experiment: str,
        *,
        clock: Clock | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ):
        self.settings = settings
        self.brief = brief
        self.clock = clock or RealClock()
        self.tell = tell
        self.remark: Callable[[Mapping[str, Any]], None] = lambda line: tell(_sentence(line))
        path = brief.folder / "fleet.json"
        self.roster = load(path) if path.exists() else Roster(path, experiment)
        self.wire = Wire(grid, self.clock, self._stray)
        self.inbox = Inbox(brief.folder / "inbox", brief.size)
        self.entrance = Entrance(self)
        self.uploads = Uploads(settings.upload)
        self.moved = Traffic()
        self.news: deque[Instant] = deque()
        """What happened and was not told yet, each with exactly one thing in it; its time is set when it is told."""
        self.silent: set[ClientId] = set()
        """Clients that owe an answer: they are not asked for more."""
        self.let_go: dict[ClientId, set[int]] = {}
        """Orders whose vectors a node need not keep any more; told with its next order."""
        self.announced: dict[int, messages.Done] = {}
        """What nodes said of orders whose step has not been taken."""
        self.state_of: dict[ClientId, int] = {}
        """The order at whose end each client's memory stands, where clients remember."""
        self.models: dict[int, Any] = {}
        self.adopted: dict[int, tuple[Order, float]] = {}
        """Orders of a server that was killed, until their nodes say whether they have them; and for how long."""
        self.out: dict[int, Order] = {}
        self._present: set[int] = set()
        self._failures: dict[ClientId, int] = {}
        self._benched: dict[ClientId, float] = {}
        """Clients that failed several times in a row, and until when they are left alone."""
        self._counted = -_CENSUS_SECONDS
        self._counted_here = 0
        self.connection = FlowerConnection(self)

    # the run

    def gather(self) -> tuple[Sequence[ClientInfo], Grouping | None]:
        wanted, limit = self.settings.clients, self.clock.now() + self.settings.gather_seconds
        self.tell(f"Waiting for {wanted} nodes, up to {self.settings.gather_seconds:.0f} s.")
        while len(self.entrance.waiting) < wanted or self.entrance.asking:
            if self.clock.now() > limit:
                if len(self.entrance.waiting) >= wanted:
                    break
                refused = "".join(f"\n  node {node}: {why}" for node, why in self.entrance.refused.items())
                raise RunError(
                    f"{len(self.entrance.waiting)} of {wanted} nodes came within {self.settings.gather_seconds:.0f} s "
                    f"(`transport.gather_seconds`); {len(self._present)} are connected.{refused}"
                )
            self.pause()
        self.entrance.open(found=True)
        while not self.entrance.idle:
            self.pause()
        infos = sorted((member.info for member in self.roster.members.values()), key=lambda info: info.id)
        self.tell(f"{len(infos)} clients with {sum(info.examples for info in infos):,} samples.")
        self.news.clear()  # nobody joins a run that has not begun
        return infos, self.roster.grouping

    def gather_again(self, known: Collection[ClientId], settled: Collection[int], account: Mapping[str, Any]) -> None:
        self.entrance.settled = frozenset(settled)
        self.inbox.drop(settled)
        self.entrance.opened = True
        if account:
            self.moved = Traffic(**account["traffic"])
            self.uploads.recall(account["measured"])
        for client, member in sorted(self.roster.members.items()):
            if client not in known:  # admitted, and then the server was killed before it said so
                self.news.append(Instant(0.0, joined=[member.info]))
        limit = self.clock.now() + _AGAIN_SECONDS
        while self.clock.now() < limit and len(self.here()) < len(self.roster.members):
            self.pause()
        self.tell(f"{len(self.here())} of {len(self.roster.members)} clients are back.")

    def session(self, local: Session) -> Session:
        return FlowerSession(self, local)

    def account(self) -> Mapping[str, Any]:
        self._counted_here = len(self.here())
        return {
            "clients": self._counted_here,
            "traffic": self.moved.line(),
            "measured": self.uploads.measured(),
        }

    def report(self) -> None:
        self.remark({"event": "fleet", "time": self.connection.now(), **self.account()})

    # one turn

    def turn(self) -> None:
        """Hear whatever has come."""
        if self.clock.now() - self._counted >= _CENSUS_SECONDS:
            self._counted = self.clock.now()
            self._census()
        self.wire.turn()
        self.entrance.turn()
        now = self.clock.now()
        for client in [client for client, until in self._benched.items() if now >= until]:
            del self._benched[client]
        for order, deadline in list(self.adopted.values()):
            if now >= deadline:
                del self.adopted[order.sequence]
                self.fail(order, "its node did not come back")

    def pause(self) -> None:
        self.turn()
        self.clock.sleep(self.settings.poll_seconds)

    def _census(self) -> None:
        present = self.wire.nodes()
        for node in self._present - present:
            self.entrance.left(node)
        for node in sorted(present - self._present):
            self.entrance.greet(node)
        self._present = present
        if self.connection.started and len(self.here()) != self._counted_here:
            self.report()

    def here(self) -> set[ClientId]:
        """Clients that can be given work."""
        return {client for client in self.roster.members if self.reachable(client)}

    def reachable(self, client: ClientId) -> bool:
        return (
            client in self.roster.members
            and client not in self.silent
            and client not in self._benched
            and self.roster.node_of.get(client) in self._present
        )

    # orders

    def send(self, order: Order) -> None:
        self.out[order.sequence] = order
        node, model = self.roster.node_of.get(order.client), self.models.get(order.version)
        if node is None or model is None:
            self.fail(order, "its client cannot be reached" if node is None else "its model is not kept any more")
            return
        upload = self.uploads.now()
        work = messages.Job(
            self.roster.experiment,
            order,
            upload,
            self.state_of.get(order.client, -1),
            sorted(self.let_go.pop(order.client, ())),
            self.brief.classes,
            int(self.settings.hold_megabytes * 1e6),
            self.settings.hold_days * 86_400,
        )
        asked = self.clock.now()
        self.moved.sent += 4 * self.brief.size
        self.wire.ask(
            node,
            messages.TRAIN,
            messages.job(work, model),
            self.settings.patience,
            lambda answer: self._trained(order, answer, asked),
            lambda answer: self._late(order, answer),
        )

    def _trained(self, order: Order, answer: Heard, asked: float) -> None:
        if isinstance(answer, Failure):
            if answer.silent:
                self.silent.add(order.client)
                self.entrance.ask_again(order.client)
            elif answer.gone:
                self.forget(order.client)
            else:
                self._bench(order.client)
            self.fail(order, answer.why)
            return
        try:
            done = messages.done_of(answer)
            if done.order != order.sequence or done.bytes != 4 * self.brief.size:
                raise messages.BadMessageError("it answers another order, or has a vector of another size")
            uploaded = messages.has_vector(answer)
            vector = messages.vector_of(answer, self.brief.size) if uploaded else None
        except messages.BadMessageError as error:
            self._bench(order.client)
            self.fail(order, f"a bad answer: {error}")
            return
        self._failures.pop(order.client, None)
        self.uploads.arrived(uploaded, self.clock.now() - asked - done.seconds)
        self.deliver(order, done, vector)

    def deliver(self, order: Order, done: messages.Done | None = None, vector: Vector | None = None) -> None:
        """The order is done. A vector that came along is safe on disk before anybody hears of it."""
        self.out.pop(order.sequence, None)
        self.moved.announced += 4 * self.brief.size
        if done is not None:
            self.announced[order.sequence] = done
        if vector is not None:
            self.moved.uploaded += 4 * self.brief.size
            self.inbox.put(order.sequence, vector)
        self.news.append(Instant(0.0, delivered=[order]))

    def fail(self, order: Order, why: str) -> None:
        self.out.pop(order.sequence, None)
        self.let_go.setdefault(order.client, set()).add(order.sequence)
        self.note(why, client=order.client, order=order.sequence)
        self.news.append(Instant(0.0, failed=[order]))

    def _bench(self, client: ClientId) -> None:
        """One that fails again and again is asked less and less often."""
        failures = self._failures[client] = self._failures.get(client, 0) + 1
        if failures >= _FAILURES:
            self._benched[client] = self.clock.now() + min(_BENCH_SECONDS * 2.0 ** (failures - _FAILURES), 3600.0)

    def _late(self, order: Order, answer: Heard) -> None:
        """Its order was given up; but the client is there again."""
        what = "an error, too late" if isinstance(answer, Failure) else "an answer, too late"
        self.note(what, client=order.client, order=order.sequence)
        self.silent.discard(order.client)

    def _stray(self, node: int) -> None:
        self.note("an answer that nobody asked for, or a second one", client=self.roster.client_of.get(node))

    def forget(self, client: ClientId) -> None:
        """Its node is gone; should it be there after all, the next census greets it anew."""
        self.miss(self.roster.node_of.get(client, -1))

    def miss(self, node: int) -> None:
        self._present.discard(node)

    def note(self, what: str, **facts: Any) -> None:
        known = {name: value for name, value in facts.items() if value is not None}
        self.remark({"event": "remark", "time": self.connection.now(), "what": what, **known})

    # orders of a server that was killed

    def adopt(self, orders: Iterable[Order]) -> None:
        kept = set(self.inbox.orders())
        for order in orders:
            self.out[order.sequence] = order
            if order.sequence in kept:
                self.out.pop(order.sequence)
                self.news.append(Instant(0.0, delivered=[order]))
                continue
            self.adopted[order.sequence] = order, self.clock.now() + self.settings.patience
            held = self.entrance.held.get(order.client)
            if held is not None and self.reachable(order.client):
                self.resolve(order.client, held)

    def resolve(self, client: ClientId, held: Iterable[int]) -> None:
        """A node said which orders wait on its disk. What it does not have, it never got, or could not finish."""
        kept = set(held)
        for order, _ in list(self.adopted.values()):
            if order.client != client:
                continue
            del self.adopted[order.sequence]
            if order.sequence in kept:
                self.deliver(order)
            else:
                self.send(order)


def _sentence(line: Mapping[str, Any]) -> str:
    who = f"Client {line['client']}: " if "client" in line else ""
    return f"{who}{line['what']}."
