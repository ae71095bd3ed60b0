"""What happened, on its way to the record: in the plan's order, though evaluations are finished in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from afbs.record.checkpoint import Checkpoint
from afbs.types import Decided, Evaluated, Event, Score, Update


class Listener(Protocol):
    """Hears what happens, in the plan's order."""

    def event(self, event: Event, rejected: Sequence[Update] = ()) -> None: ...

    def evaluated(self, time: float, version: int, score: Score) -> None: ...

    def checkpoint(self, checkpoint: Checkpoint) -> None: ...

    def progress(self, time: float, version: int, trained: int) -> None:
        """Called between two turns of the run, where it may be stopped by an exception."""


@dataclass
class Evaluation:
    """One version on the test set, part by part."""

    version: int
    missing: int
    confusion: NDArray[np.int64] | None = None
    losses: dict[int, float] = field(default_factory=dict)

    def add(self, part: int, result: Evaluated) -> None:
        self.confusion = result.confusion if self.confusion is None else self.confusion + result.confusion
        self.losses[part] = result.loss
        self.missing -= 1

    def score(self) -> Score:
        assert self.confusion is not None
        total = max(1, int(self.confusion.sum()))
        loss = sum(self.losses[part] for part in sorted(self.losses))
        return Score(int(np.trace(self.confusion)) / total, loss / total, self.confusion)


class Moment(NamedTuple):
    """A moment of the grid; it enters the record once its evaluation is done."""

    time: float
    evaluation: Evaluation


class Applied(NamedTuple):
    """A step as it was taken: without the updates that were rejected."""

    decided: Decided
    rejected: Sequence[Update]


Item: TypeAlias = Event | Applied | Moment | Checkpoint


@final
class Outbox:
    """A queue whose head may have to wait for an evaluation."""

    def __init__(self, listener: Listener):
        self._listener = listener
        self._items: deque[Item] = deque()

    def put(self, item: Item) -> None:
        self._items.append(item)

    def post(self) -> None:
        """Tell the listener everything up to the first evaluation that is still under way."""
        while self._items:
            item = self._items[0]
            if isinstance(item, Moment):
                if item.evaluation.missing:
                    break
                self._listener.evaluated(item.time, item.evaluation.version, item.evaluation.score())
            elif isinstance(item, Checkpoint):
                self._listener.checkpoint(item)
            elif isinstance(item, Applied):
                self._listener.event(item.decided, item.rejected)
            else:
                self._listener.event(item)
            self._items.popleft()
