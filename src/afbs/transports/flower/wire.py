"""Questions out, answers back, over Flower's Grid. Whoever asks says what to do with the answer.

A question is answered once: by its node, by Flower in place of its node, or by the clock. What comes after that is
late; what nobody asked for is stray. Both are told, and change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, final

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

_REASONS = {
    2: "its app raised an error",
    3: "the message expired",
    5: "the node is gone",
    8: "its app was killed",
}
"""What Flower's error codes were seen to mean."""
_MARGIN = 600.0
"""Seconds by which a message outlives the moment at which it is given up here: an answer may still come late."""
_MOST_LATE = 4096


class Clock(Protocol):
    """Real time, or what a test takes for it."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


@final
class RealClock(Clock):
    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Failure(NamedTuple):
    """Why there is no answer. `gone`: the node cannot be reached; `silent`: it may still be at work."""

    why: str
    gone: bool = False
    silent: bool = False


Heard: TypeAlias = RecordDict | Failure
Then: TypeAlias = Callable[[Heard], None]


@dataclass(frozen=True)
class _Asked:
    node: int
    deadline: float
    then: Then
    late: Then


def _ignore(answer: Heard) -> None: ...


@final
class Wire:
    """`stray` is told of replies that nobody asked for: the node they come from."""

    def __init__(self, grid: Grid, clock: Clock, stray: Callable[[int], None]):
        self._grid = grid
        self._clock = clock
        self._stray = stray
        self._asked: dict[str, _Asked] = {}
        self._late: dict[str, _Asked] = {}
        self._unsent: list[Then] = []
        self.heard = clock.now()
        """When a node was last heard."""

    def nodes(self) -> set[int]:
        return set(self._grid.get_node_ids())

    def ask(self, node: int, kind: str, content: RecordDict, within: float, then: Then, late: Then = _ignore) -> None:
        """`then` is called once, at a later `turn`; `late` with what comes after the time is over."""
        message = Message(content, dst_node_id=node, message_type=kind, ttl=within + _MARGIN)
        numbers = [number for number in self._grid.push_messages([message]) if number]
        if numbers:
            self._asked[numbers[0]] = _Asked(node, self._clock.now() + within, then, late)
        else:
            self._unsent.append(then)

    def turn(self) -> None:
        """Hear whatever has come, once."""
        unsent, self._unsent = self._unsent, []
        for then in unsent:
            then(Failure("the message could not be sent", gone=True))
        if self._asked or self._late:
            for reply in list(self._grid.pull_messages([*self._asked, *self._late])):
                self._hear(reply)
        now = self._clock.now()
        for number in [number for number, asked in self._asked.items() if asked.deadline <= now]:
            asked = self._asked.pop(number)
            self._late[number] = asked
            asked.then(Failure("no answer in time", silent=True))
        while len(self._late) > _MOST_LATE:
            del self._late[next(iter(self._late))]

    def _hear(self, reply: Message) -> None:
        number, node = reply.metadata.reply_to_message_id, reply.metadata.src_node_id
        asked = self._asked.get(number) or self._late.get(number)
        if asked is None or (reply.has_content() and node != asked.node):
            self._stray(node)
            return
        then = asked.late if self._asked.pop(number, None) is None else asked.then
        self._late.pop(number, None)
        if reply.has_error():
            code = reply.error.code
            why = _REASONS.get(code, f"Flower reports error {code}")
            then(Failure(f"{why}{_last_words(reply.error.reason)}", gone=code == 5, silent=code == 3))
        else:
            self.heard = self._clock.now()
            then(reply.content)


def _last_words(reason: str | None) -> str:
    """The last line of what an app raised: where it went wrong is in the node's own log."""
    lines = [line.strip() for line in (reason or "").splitlines() if line.strip()]
    return f" ({lines[-1][:200]})" if lines else ""
