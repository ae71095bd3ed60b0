"""Turns what happens in a run into lines of its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from afbs.record.checkpoint import Checkpoint, save_checkpoint
from afbs.record.writer import Writer
from afbs.types import Arrived, Decided, Dispatched, Event, Lost, Score, Stopped, Update

_FLUSH_SECONDS = 0.5


class Progress(NamedTuple):
    """How far a run has come: virtual seconds, version, jobs trained, last known accuracy, real seconds."""

    time: float
    version: int
    trained: int
    accuracy: float | None
    wall: float


@final
class Recorder:
    """Writes events, evaluations and checkpoints. `wall` counts on from `elapsed` when a run is taken up again."""

    def __init__(self, writer: Writer, elapsed: float = 0.0, on_progress: Callable[[Progress], None] | None = None):
        self._writer = writer
        self._zero = perf_counter() - elapsed
        self._flushed = 0.0
        self._confusion: NDArray[np.int64] | None = None
        self._accuracy: float | None = None
        self._on_progress = on_progress
        self._saver = ThreadPoolExecutor(1, "afbs-checkpoint")
        self._saving: tuple[int, Future[Path]] | None = None

    def wall(self) -> float:
        return round(perf_counter() - self._zero, 4)

    def event(self, event: Event, rejected: Sequence[Update] = ()) -> None:
        match event:
            case Dispatched(time, order):
                self._write("dispatch", time, client=order.client, version=order.version, sequence=order.sequence)
            case Arrived(time, update):
                self._write(
                    "arrival",
                    time,
                    client=update.client,
                    base_version=update.base_version,
                    version=update.version,
                    examples=update.examples,
                    order=update.order.sequence,
                )
            case Lost(time, order):
                self._write("lost", time, client=order.client, order=order.sequence)
            case Decided(time, version, step):
                self._write(
                    "step",
                    time,
                    version=version,
                    used=_columns(step.used) | {"weight": [float(f"{weight:.6g}") for weight in step.weights]},
                    dropped=_columns(step.dropped),
                    rejected=[update.order.sequence for update in rejected],
                    notes=dict(step.notes),
                    wall=self.wall(),
                )
            case Stopped(time, reason):
                self.end(time, reason)
        if perf_counter() - self._flushed > _FLUSH_SECONDS:
            self._flush()

    def evaluated(self, time: float, version: int, score: Score) -> None:
        self._confusion = score.confusion
        self._accuracy = score.accuracy
        totals = score.confusion.sum(axis=1)
        shares = np.diag(score.confusion) / np.maximum(totals, 1)
        self._write(
            "eval",
            time,
            version=version,
            accuracy=score.accuracy,
            loss=score.loss if np.isfinite(score.loss) else None,
            per_class=[round(float(share), 4) if total else None for share, total in zip(shares, totals, strict=True)],
            wall=self.wall(),
        )
        self._flush()

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """The checkpoint remembers where the record stood, so that a resumed run continues exactly there.

        It is written by a thread while the run goes on: nothing in it is ever changed.
        """
        self._note_saved(wait=True)
        placed = replace(checkpoint, offset=self._writer.position(), wall=self.wall())
        self._saving = checkpoint.version, self._saver.submit(save_checkpoint, self._writer.folder, placed)

    def _note_saved(self, wait: bool = False) -> None:
        """A line for the checkpoint that has been written, if one has."""
        if self._saving is not None and (wait or self._saving[1].done()):
            (version, saved), self._saving = self._saving, None
            self._writer.event(event="checkpoint", version=version, file=saved.result().name, wall=self.wall())

    def progress(self, time: float, version: int, trained: int) -> None:
        if self._on_progress:
            self._on_progress(Progress(time, version, trained, self._accuracy, self.wall()))

    def resumed(self, version: int) -> None:
        self._writer.event(event="resume", version=version, wall=self.wall())

    def end(self, time: float, reason: str) -> None:
        self._note_saved(wait=True)
        confusion = None if self._confusion is None else self._confusion.tolist()
        self._write("end", time, reason=reason, confusion=confusion, wall=self.wall())
        self._flush()

    def _write(self, event: str, time: float, **fields: Any) -> None:
        self._writer.event(event=event, time=time, **fields)

    def _flush(self) -> None:
        self._note_saved()
        self._writer.flush()
        self._flushed = perf_counter()


def _columns(updates: Sequence[Update]) -> dict[str, list[Any]]:
    return {
        "client": [update.client for update in updates],
        "staleness": [update.staleness for update in updates],
        "examples": [update.examples for update in updates],
        "order": [update.order.sequence for update in updates],
    }
