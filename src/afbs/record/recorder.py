"""Turns what happens in a run into lines of its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

from afbs.metrics import ACCURACY, Metric
from afbs.record.checkpoint import Checkpoint, save_checkpoint
from afbs.record.lines import line_of, step_line
from afbs.record.writer import Writer
from afbs.types import Decided, Dispatched, Event, Score, Stopped, Update

_FLUSH_SECONDS = 0.5


class Progress(NamedTuple):
    """How far a run has come: virtual seconds, version, jobs trained, the last known `value` of the metric that is
    watched, real seconds."""

    time: float
    version: int
    trained: int
    value: float | None
    wall: float
    metric: Metric = ACCURACY


@final
class Recorder:
    """Writes events, evaluations and checkpoints of the run with the identity `run`.

    `wall` counts on from `elapsed` when a run is taken up again. In a `live` run an order, and everything before it, is
    safe on disk before it is sent: what a real client was told cannot be worked out again.
    """

    def __init__(
        self,
        writer: Writer,
        run: str = "",
        *,
        elapsed: float = 0.0,
        live: bool = False,
        metric: Metric = ACCURACY,
        on_progress: Callable[[Progress], None] | None = None,
    ):
        self._writer = writer
        self._metric = metric
        self._run = run
        self._live = live
        self._zero = perf_counter() - elapsed
        self._flushed = 0.0
        self._last: Mapping[str, Any] = {}
        self._value: float | None = None
        self._on_progress = on_progress
        self._saver = ThreadPoolExecutor(1, "afbs-checkpoint")
        self._saving: tuple[int, Future[Path]] | None = None

    def wall(self) -> float:
        return round(perf_counter() - self._zero, 4)

    def event(self, event: Event) -> None:
        if isinstance(event, Stopped):
            self.end(event.time, event.reason)
        else:
            self._writer.line(line_of(event))
        if self._live or perf_counter() - self._flushed > _FLUSH_SECONDS:
            self._flush()
        if self._live and isinstance(event, Dispatched):
            self._writer.sync()

    def applied(
        self,
        decided: Decided,
        rejected: Sequence[Update],
        missing: Sequence[Update],
        told: Sequence[Mapping[str, float]] = (),
    ) -> None:
        line = step_line(decided, rejected, missing)
        if told:
            names = dict.fromkeys(name for each in told for name in each)
            line["told"] = {name: [_finite(each.get(name)) for each in told] for name in names}
        self._writer.line(line, self.wall())

    def evaluated(self, time: float, version: int, score: Score, event: str = "eval") -> None:
        values = {name: _finite(value) for name, value in score.values.items()}
        line = {"event": event, "time": time, "version": version, **values, **score.details}
        if event == "eval":
            self._last, self._value = score.last, values.get(self._metric.name)
        self._writer.line(line, self.wall())
        self._flush()

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """The checkpoint remembers where the record stood, so that a resumed run continues exactly there.

        It is written by a thread while the run goes on: nothing in it is ever changed.
        """
        self._note_saved(wait=True)
        offset = self._writer.sync()
        placed = replace(checkpoint, offset=offset, seal=self._writer.seal.text(), run=self._run, wall=self.wall())
        self._saving = checkpoint.version, self._saver.submit(save_checkpoint, self._writer.folder, placed)
        if self._live:
            self._note_saved(wait=True)

    def _note_saved(self, wait: bool = False) -> None:
        """A line for the checkpoint that has been written, if one has."""
        if self._saving is not None and (wait or self._saving[1].done()):
            (version, saved), self._saving = self._saving, None
            line = {"event": "checkpoint", "version": version, "file": saved.result().name}
            self._writer.line(line, self.wall())

    def progress(self, time: float, version: int, trained: int) -> None:
        if self._on_progress:
            self._on_progress(Progress(time, version, trained, self._value, self.wall(), self._metric))

    def aside(self, fields: Mapping[str, Any]) -> None:
        """A line that decides nothing, from whoever knows more of the clients than the plan does."""
        self._writer.line(fields, self.wall())

    def resumed(self, version: int) -> None:
        self._writer.line({"event": "resume", "version": version}, self.wall())

    def end(self, time: float, reason: str) -> None:
        self._note_saved(wait=True)
        self._writer.line({"event": "end", "time": time, "reason": reason, **self._last}, self.wall())
        self._flush()

    def _flush(self) -> None:
        self._note_saved()
        self._writer.flush()
        self._flushed = perf_counter()


def _finite(value: Any) -> Any:
    """What JSON can hold: none where a number has run away. What is no number stays as it is."""
    return None if isinstance(value, float) and not isfinite(value) else value
