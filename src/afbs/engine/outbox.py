"""What happened, on its way to the record: in the plan's order, though evaluations are finished in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, final

from afbs.engine.evaluations import Exam
from afbs.engine.server import Applied
from afbs.record.checkpoint import Checkpoint
from afbs.types import Decided, Event, Score, Update


class Listener(Protocol):
    """Hears what happens, in the plan's order."""

    def event(self, event: Event) -> None: ...

    def applied(
        self,
        decided: Decided,
        rejected: Sequence[Update],
        missing: Sequence[Update],
        told: Sequence[Mapping[str, float]] = (),
    ) -> None: ...

    def evaluated(self, time: float, version: int, score: Score, event: str = "eval") -> None: ...

    def checkpoint(self, checkpoint: Checkpoint) -> None: ...

    def progress(self, time: float, version: int, trained: int) -> None:
        """Called between two turns of the run, where it may be stopped by an exception."""


class Moment(NamedTuple):
    """A moment at which the model is tested; it enters the record once its exam is done."""

    time: float
    exam: Exam


Item: TypeAlias = Event | Applied | Moment | Checkpoint


@final
class Outbox:
    """A queue whose head may have to wait for an exam."""

    def __init__(self, listener: Listener):
        self._listener = listener
        self._items: deque[Item] = deque()

    def put(self, item: Item) -> None:
        self._items.append(item)

    def post(self) -> None:
        """Tell the listener everything up to the first exam that is still under way."""
        while self._items:
            item = self._items[0]
            if isinstance(item, Moment):
                if item.exam.missing:
                    break
                exam = item.exam
                self._listener.evaluated(item.time, exam.version, exam.score(), exam.subject.event)
            elif isinstance(item, Checkpoint):
                self._listener.checkpoint(item)
            elif isinstance(item, Applied):
                self._listener.applied(*item)
            else:
                self._listener.event(item)
            self._items.popleft()
