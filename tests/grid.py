"""Flower's Grid in memory and in virtual time, for tests: the real apps, the real messages, no network and no waiting.

The nodes outlive a server: a run that is killed leaves its orders with them, and their replies to it are lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

QUERY_SECONDS = 0.25


def order_of(message: Message) -> int | None:
    """The order that a message is about."""
    found: Any = message.content["afbs"].get("order") if message.has_content() and "afbs" in message.content else None
    return None if found is None else int(found)


@dataclass
class MemoryNode:
    """`lasts` is asked for each message how many seconds it takes, `spoils` what the node makes of its answer."""

    number: int
    app: ClientApp
    settings: dict[str, Any]
    lasts: Callable[[Message], float]
    spoils: Callable[[Message, Message], Iterable[Message]] = lambda asked, reply: [reply]
    up: bool = True
    life: int = 0
    queue: deque[tuple[MemoryGrid, Message]] = field(default_factory=deque)
    busy: bool = False


class Nodes:
    """All nodes and the one clock. Whatever is due happens while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0
        self.nodes: dict[int, MemoryNode] = {}
        self.handled: list[tuple[float, int, str]] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = count()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        while self._due and self._due[0][0] <= until:
            self.time, _, what = heappop(self._due)
            what()
        self.time = until

    def at(self, time: float, what: Callable[[], None]) -> None:
        heappush(self._due, (time, next(self._count), what))

    def add(self, node: MemoryNode) -> None:
        self.nodes[node.number] = node

    def kill(self, number: int) -> None:
        """As `kill -9` does: what was under way is gone, and everybody who waits for an answer hears of it."""
        node = self.nodes[number]
        node.up, node.busy = False, False
        node.life += 1
        waiting, node.queue = list(node.queue), deque()
        for grid, message in waiting:
            reply = Message(Error(5, "node unavailable"), reply_to=message)
            self.at(self.time + 58.0, lambda grid=grid, reply=reply: grid.mailbox.append(reply))  # type: ignore[misc]

    def start(self, number: int) -> None:
        self.nodes[number].up = True

    def post(self, grid: MemoryGrid, message: Message) -> None:
        node = self.nodes.get(message.metadata.dst_node_id)
        if node is None or not node.up:
            grid.mailbox.append(Message(Error(5, "node unavailable"), reply_to=message))
            return
        node.queue.append((grid, message))
        if not node.busy:
            self._next(node)

    def _next(self, node: MemoryNode) -> None:
        node.busy = bool(node.queue)
        if node.busy:
            seconds, life = node.lasts(node.queue[0][1]), node.life
            if seconds:
                self.at(self.time + seconds, lambda: self._finish(node, life))
            else:
                self._finish(node, life)

    def _finish(self, node: MemoryNode, life: int) -> None:
        if node.life != life:
            return
        grid, message = node.queue.popleft()
        self.handled.append((self.time, node.number, message.metadata.message_type))
        context = Context(grid.number, node.number, node.settings, RecordDict(), dict(grid.run_config))
        try:
            reply = node.app(message, context)
        except Exception as error:
            reply = Message(Error(2, repr(error)), reply_to=message)
        grid.mailbox.extend(node.spoils(message, reply))
        self._next(node)


class MemoryGrid(Grid):
    """One server's life."""

    _numbers = count(1)

    def __init__(self, nodes: Nodes, run_config: Mapping[str, Any] | None = None):
        self.nodes = nodes
        self.number = next(self._numbers)
        self.run_config = dict(run_config or {})
        self.mailbox: deque[Message] = deque()
        self.refuse: Callable[[Message], bool] = lambda message: False
        self._ids = count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = self.number, 1, 1

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return [node.number for node in self.nodes.nodes.values() if node.up]

    def push_messages(self, messages: Iterable[Message]) -> list[Any]:
        numbers: list[str | None] = []
        for message in messages:
            if self.refuse(message):
                numbers.append(None)
                continue
            name = f"{self.number}/{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = name
            self.nodes.post(self, message)
            numbers.append(name)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Like the real one it may give several at once; it gives duplicates and strays, too, which that does not."""
        found, self.mailbox = list(self.mailbox), deque()
        return found
