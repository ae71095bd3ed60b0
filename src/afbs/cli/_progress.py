"""Shows how a run goes on: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from afbs.record.recorder import Progress as State

_REDRAW_SECONDS = 0.2
_LOG_SECONDS = 30.0


@contextmanager
def shown(console: Console, name: str, horizon: float) -> Iterator[Callable[[State], None]]:
    """Gives what a run calls with its progress."""
    if console.is_terminal:
        with _bar(console, name, horizon) as observe:
            yield observe
    else:
        yield _log(console, name, horizon)


@contextmanager
def _bar(console: Console, name: str, horizon: float) -> Iterator[Callable[[State], None]]:
    text = Column(no_wrap=True)
    columns = (
        TextColumn("[bold]{task.description}", table_column=text),
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


def _log(console: Console, name: str, horizon: float) -> Callable[[State], None]:
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
    accuracy = "–" if state.accuracy is None else f"{state.accuracy:.1%}"
    left = f"{_clock((horizon - state.time) / virtual)} left" if virtual > 0 and state.time < horizon else "done"
    return (
        f"day {state.time / 86_400:.2f}/{horizon / 86_400:g} · v{state.version} · acc. {accuracy} · "
        f"{updates:.0f} updates/s · {left if state.time else 'starting'}"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
