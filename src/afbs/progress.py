"""Shows how a run goes on: a bar on a terminal, a line that changes in a notebook, a line now and then in a log."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from afbs.record.recorder import Progress as State

Observer: TypeAlias = Callable[[State], None]
_REDRAW_SECONDS = 0.2
_LOG_SECONDS = 30.0
_BAR = 24


@contextmanager
def watched(name: str, horizon: float, show: bool, also: Observer | None = None) -> Iterator[Observer | None]:
    """What a run called from Python should call with its progress: the display if `show`, and `also`, or neither."""
    if not show:
        yield also
        return
    with shown(name, horizon) as observe:
        if also is None:
            yield observe
            return
        told = also

        def both(state: State) -> None:
            observe(state)
            told(state)

        yield both


@contextmanager
def shown(name: str, horizon: float, console: Console | None = None) -> Iterator[Observer]:
    """Gives what a run calls with its progress. Without a `console` it goes to stderr, where no pipe picks it up."""
    console = console or Console(stderr=True, emoji=False)
    if console.is_jupyter:
        yield _cell(name, horizon)
    elif console.is_terminal:
        with _bar(console, name, horizon) as observe:
            yield observe
    else:
        yield _log(console, name, horizon)


def _cell(name: str, horizon: float) -> Observer:
    """One line below the cell, which changes. IPython alone can do that; rich would need widgets as well."""
    display = importlib.import_module("IPython.display").display
    handle = display({"text/plain": f"{name}: starting"}, raw=True, display_id=True)
    speed = _Speed()
    drawn = 0.0

    def observe(state: State) -> None:
        nonlocal drawn
        speed.begin(state)
        if monotonic() - drawn < _REDRAW_SECONDS and state.time < horizon:
            return
        drawn = monotonic()
        full = round(_BAR * min(1.0, state.time / horizon))
        bar = "█" * full + "░" * (_BAR - full)
        handle.update({"text/plain": f"{name} {bar} {_text(state, horizon, speed)}"}, raw=True)

    return observe


@contextmanager
def _bar(console: Console, name: str, horizon: float) -> Iterator[Observer]:
    text = Column(no_wrap=True)
    columns = (
        TextColumn("{task.description}", style="bold", table_column=text, markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[text]}", table_column=text, markup=False),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        task = progress.add_task(name, total=horizon, text="starting")
        speed = _Speed()
        drawn = 0.0

        def observe(state: State) -> None:
            nonlocal drawn
            speed.begin(state)
            if monotonic() - drawn < _REDRAW_SECONDS and state.time < horizon:
                return
            drawn = monotonic()
            progress.update(task, completed=state.time, text=_text(state, horizon, speed))

        yield observe


def _log(console: Console, name: str, horizon: float) -> Observer:
    speed = _Speed()
    written = monotonic()

    def observe(state: State) -> None:
        nonlocal written
        speed.begin(state)
        if monotonic() - written >= _LOG_SECONDS:
            written = monotonic()
            console.print(f"{name}: {_text(state, horizon, speed)}", highlight=False, markup=False, soft_wrap=True)

    return observe


class _Speed:
    """Updates and virtual seconds a real second, since this session of the run began."""

    def __init__(self) -> None:
        self._first: State | None = None

    def begin(self, state: State) -> None:
        self._first = self._first or state

    def of(self, state: State) -> tuple[float, float]:
        assert self._first is not None
        wall = max(1e-9, state.wall - self._first.wall)
        return (state.trained - self._first.trained) / wall, (state.time - self._first.time) / wall


def _text(state: State, horizon: float, speed: _Speed) -> str:
    updates, virtual = speed.of(state)
    left = f"{_clock((horizon - state.time) / virtual)} left" if virtual > 0 and state.time < horizon else "done"
    return (
        f"day {state.time / 86_400:.2f}/{horizon / 86_400:g} · v{state.version} · {state.metric.brief(state.value)} · "
        f"{updates:.0f} updates/s · {left if state.time else 'starting'}"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
