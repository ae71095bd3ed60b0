"""What the server knows and hears of all nodes. One thread, one turn after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

from flwr.serverapp import Grid

from afbs.interfaces import Brief, Session
from afbs.interfaces import Fleet as AnyFleet
from afbs.transports.flower import Flower
from afbs.transports.flower.attendance import Attendance
from afbs.transports.flower.connection import FlowerConnection
from afbs.transports.flower.entrance import Entrance
from afbs.transports.flower.orders import OrderBook
from afbs.transports.flower.roster import Roster, load
from afbs.transports.flower.session import FlowerSession
from afbs.transports.flower.uploads import Traffic
from afbs.transports.flower.wire import Clock, RealClock, Wire
from afbs.types import ClientId, ClientInfo, Grouping, Instant, RunError

_CENSUS_SECONDS = 3.0
_AGAIN_SECONDS = 30.0
"""How long a server that was started again waits for its nodes to say hello before it goes on with those that did."""


@final
class FlowerFleet(AnyFleet):
    """`tell` is for whoever watches; what belongs into the record goes to `remark`."""

    tests = True
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
        self.attendance = Attendance(self.roster, self.clock)
        self.wire = Wire(grid, self.clock, self._stray)
        self.entrance = Entrance(self)
        self.orders = OrderBook(self)
        self.news: deque[Instant] = deque()
        """What happened and was not told yet, each with exactly one thing in it; its time is set when it is told."""
        self._counted = -_CENSUS_SECONDS
        self._reported = 0
        self.connection = FlowerConnection(self)

    # the run

    def gather(self) -> tuple[Sequence[ClientInfo], Grouping | None]:
        wanted, limit = self.settings.clients, self.clock.now() + self.settings.gather_seconds
        self.tell(f"Waiting for {wanted} nodes, up to {self.settings.gather_seconds:.0f} s.")
        while len(self.entrance.waiting) < wanted or self.entrance.asking:
            if self.clock.now() > limit:
                if len(self.entrance.waiting) >= wanted:
                    break
                raise RunError(self._too_few())
            self.pause()
        self.entrance.open(found=True)
        while not self.entrance.idle:
            self.pause()
        infos = sorted((member.info for member in self.roster.members.values()), key=lambda info: info.id)
        self.tell(f"{len(infos)} clients with {sum(info.examples for info in infos):,} samples.")
        self.news.clear()  # nobody joins a run that has not begun
        return infos, self.roster.grouping

    def _too_few(self) -> str:
        came, seconds = len(self.entrance.waiting), self.settings.gather_seconds
        refused = "".join(f"\n  node {node}: {why}" for node, why in self.entrance.refused.items())
        return (
            f"{came} of {self.settings.clients} nodes came within {seconds:.0f} s (`transport.gather_seconds`); "
            f"{len(self.attendance.present)} are connected.{refused}"
        )

    def gather_again(self, known: Collection[ClientId], settled: Collection[int], account: Mapping[str, Any]) -> None:
        self.entrance.settled = frozenset(settled)
        self.entrance.opened = True
        self.orders.inbox.drop(settled)
        if account:
            self.orders.moved = Traffic(**account["traffic"])
            self.orders.uploads.recall(account["measured"])
        for client, member in sorted(self.roster.members.items()):
            if client not in known:  # admitted, and then the server was killed before it said so
                self.news.append(Instant(0.0, joined=[member.info]))
        limit = self.clock.now() + _AGAIN_SECONDS
        while self.clock.now() < limit and len(self.attendance.here()) < len(self.roster.members):
            self.pause()
        self.tell(f"{len(self.attendance.here())} of {len(self.roster.members)} clients are back.")

    def session(self, local: Session) -> Session:
        return FlowerSession(self, local)

    def account(self) -> Mapping[str, Any]:
        self._reported = len(self.attendance.here())
        traffic, measured = self.orders.moved.line(), self.orders.uploads.measured()
        return {"clients": self._reported, "traffic": traffic, "measured": measured}

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
        self.orders.turn()

    def pause(self) -> None:
        self.turn()
        self.clock.sleep(self.settings.poll_seconds)

    def _census(self) -> None:
        before, present = self.attendance.present, self.wire.nodes()
        for node in before - present:
            self.entrance.left(node)
        for node in sorted(present - before):
            self.entrance.greet(node)
        self.attendance.present = present
        if self.connection.started and len(self.attendance.here()) != self._reported:
            self.report()

    # what is worth a line

    def note(self, what: str, **facts: Any) -> None:
        known = {name: value for name, value in facts.items() if value is not None}
        self.remark({"event": "remark", "time": self.connection.now(), "what": what, **known})

    def _stray(self, node: int) -> None:
        self.note("an answer that nobody asked for, or a second one", client=self.roster.client_of.get(node))


def _sentence(line: Mapping[str, Any]) -> str:
    who = f"Client {line['client']}: " if "client" in line else ""
    return f"{who}{line['what']}."
