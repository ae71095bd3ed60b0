"""What is next: starts cells while there are cores, one core a cell while cells are many, and all cores at the end."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import NamedTuple, Protocol, final

from afbs.executors.inline import Inline
from afbs.executors.processes import Processes
from afbs.sweeps._cell import News
from afbs.sweeps.cells import Cell
from afbs.sweeps.estimate import Meter
from afbs.sweeps.ledger import Ledger

_TURN_SECONDS = 0.5
_LEDGER_SECONDS = 2.0
"""So often it is written down what cells under way have cost."""
_LAST = 3
"""So many cells a core are the last few of a sweep."""
_WORTH_SECONDS = 6.0
"""A cell is started again with more cores if that ends it sooner by more than this: starting costs seconds."""


class Runner(Protocol):
    """Where cells are run: on so many cores, of which one cell may have as many as `widest`."""

    cores: int
    widest: int

    def start(self, cell: Cell, folder: Path, cores: int) -> None: ...

    def news(self, seconds: float) -> list[tuple[str, News]]: ...

    def stop(self, key: str) -> None: ...

    def close(self) -> None: ...


class State(NamedTuple):
    """What a display shows. `left` are seconds; None while nothing has been measured."""

    total: int
    done: int
    failed: int
    running: tuple[tuple[str, float, str], ...]
    share: float
    left: float | None
    note: str = ""


class Display(Protocol):
    def __call__(self, state: State, /) -> None: ...


class SecondCtrlC(KeyboardInterrupt):
    """The user would not wait until everything was saved."""


@final
class Conductor:
    """Carries cells out until all have ended, failed, or somebody stops it."""

    def __init__(
        self,
        cells: Sequence[Cell],
        ledger: Ledger,
        runner: Runner,
        cores: int,
        display: Display,
        enough: Callable[[Cell, Path], bool] | None = None,
    ):
        self._ledger, self._runner, self._cores, self._display = ledger, runner, cores, display
        self._cells = {cell.id: cell for cell in cells}
        self._finished = {cell.id for cell in cells if ledger.is_done(cell)}
        self._waiting = deque(cell for cell in self._cells.values() if cell.id not in self._finished)
        self._running: dict[str, int] = {}
        self._value: dict[str, str] = {}
        self._meter = Meter(cells, ledger.costs, self._finished)
        self._widening: set[str] = set()
        self._enough = enough
        self._given_up: set[str] = set()
        self._told_to_stop = False
        self._looked = self._written = perf_counter()
        self._handed_out = 0.0
        self._used: dict[str, float] = {}
        self._earlier: dict[str, float] = {}
        self.stopping = False

    def go(self) -> bool:
        """Whether everything was carried out; if not, somebody stopped it and what was under way has been saved."""
        self._ledger.write()
        with self._stoppable():
            try:
                while self._running or (self._waiting and not self.stopping):
                    if self.stopping:
                        self._stop_all()
                    else:
                        self._give_up()
                        self._start()
                        self._widen()
                    for key, told in self._runner.news(_TURN_SECONDS):
                        self._hear(key, told)
                    if perf_counter() - self._written > _LEDGER_SECONDS:
                        self._write()
                    self._display(self.state())
            finally:
                self._runner.close()
                self._ledger.write()
        return not self._waiting

    def state(self, note: str = "") -> State:
        total = self._meter.total()
        running = tuple(
            (self._cells[key].name, self._meter.share(key), self._value.get(key, "")) for key in self._running
        )
        share = sum(self._meter.share(key) for key in self._cells) / max(1, len(self._cells))
        left = None if total is None else total / self._cores / self._speed()
        return State(len(self._cells), len(self._finished), len(self._ledger.failed), running, share, left, note)

    def _speed(self) -> float:
        """Processor seconds a second of a core: less than one where others use the cores, too, or a disk is slow."""
        now = perf_counter()
        self._handed_out += (now - self._looked) * sum(self._running.values())
        self._looked = now
        used = sum(self._used.values())
        return min(1.0, max(0.05, used / self._handed_out)) if used and self._handed_out else 1.0

    def _give_up(self) -> None:
        """Cells of which somebody has seen enough are stopped, and not taken up again."""
        if self._enough is None:
            return
        for key in [*self._running, *(cell.id for cell in self._waiting)]:
            cell = self._cells[key]
            if key in self._given_up or key in self._widening or not self._enough(cell, self._ledger.place(cell)):
                continue
            self._given_up.add(key)
            if key in self._running:
                self._runner.stop(key)
            else:
                self._waiting.remove(cell)

    def _start(self) -> None:
        while self._waiting:
            free = self._cores - sum(self._running.values())
            cell = self._next()
            wanted = min(self._most(cell), max(1, free // len(self._waiting)))
            if self._alone(cell):
                wanted = self._cores
            if wanted > free:
                return
            self._waiting.remove(cell)
            self._running[cell.id] = wanted
            self._runner.start(cell, self._ledger.place(cell), wanted)

    def _next(self) -> Cell:
        """In the order in which they were given, which may be that of their worth. Of the last few, the one that takes
        longest, so that short ones are left to fill the cores at the end."""
        if len(self._waiting) > _LAST * self._cores:
            return self._waiting[0]
        lefts = self._meter.lefts(cell.id for cell in self._waiting)
        return max(self._waiting, key=lambda cell: lefts.get(cell.id, 0.0))

    def _widen(self) -> None:
        """When no cell waits for the cores that are free, the one that needs longest is given them.

        It is stopped, which saves it, and taken up again; its result is the same to the bit.
        """
        free = self._cores - sum(self._running.values())
        if self._waiting or free <= 0 or self._widening or self._given_up & set(self._running):
            return
        gains = []
        for key, cores in self._running.items():
            left, more = self._meter.left(key), min(cores + free, self._most(self._cells[key]))
            if left is not None and more > cores and self._meter.share(key) > 0:
                gains.append((left / cores - left / more, key))
        if gains and max(gains)[0] > _WORTH_SECONDS:
            key = max(gains)[1]
            self._widening.add(key)
            self._runner.stop(key)

    def _hear(self, key: str, told: News) -> None:
        if told.state == "going":
            self._meter.going(key, told.share, told.cpu)
            self._ledger.spending(key, told.cpu)
            self._used[key] = self._earlier.get(key, 0.0) + told.cpu
            self._value[key] = told.value
            return
        del self._running[key]
        asked = key in self._widening or key in self._given_up or self.stopping
        self._widening.discard(key)
        self._ledger.spent(key, told.cpu)
        self._used[key] = self._earlier[key] = self._earlier.get(key, 0.0) + told.cpu
        if told.state == "done":
            self._finished.add(key)
            self._meter.ended(key, self._ledger.costs[key])
        elif told.state == "stopped" and asked:
            self._meter.paused(key)
            if key not in self._given_up:
                self._waiting.appendleft(self._cells[key])
        else:
            self._ledger.fails(
                key, told.text or "Its process was stopped from outside. The same command goes on with it."
            )
            self._meter.ended(key, self._ledger.costs[key])
        self._write()

    def _write(self) -> None:
        self._ledger.write()
        self._written = perf_counter()

    def _most(self, cell: Cell) -> int:
        """How many cores a cell could use."""
        executor, most = cell.config.executor, min(self._cores, self._runner.widest)
        if isinstance(executor, Inline):
            return 1
        return min(most, executor.workers or most) if isinstance(executor, Processes) else most

    def _alone(self, cell: Cell) -> bool:
        """An executor that finds its own cores elsewhere has them to itself."""
        return not isinstance(cell.config.executor, Inline | Processes)

    def _stop_all(self) -> None:
        """Once: a second signal would end a cell that is saving itself."""
        if not self._told_to_stop:
            self._told_to_stop = True
            self._display(self.state("Saving all cells under way. Once more ends at once."))
            for key in self._running:
                if key not in self._widening and key not in self._given_up:
                    self._runner.stop(key)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM lets every cell save itself; the second ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopping:
                raise SecondCtrlC
            self.stopping = True

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
