"""One display over all cells: bars on a terminal, a line now and then in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from afbs.sweeps.conducting import Display, State

_LOG_SECONDS = 30.0
_MOST_LINES = 12


@contextmanager
def displayed(name: str, cores: int, show: bool = True, console: Console | None = None) -> Iterator[Display]:
    """What a sweep calls with its state. Without a `console` it goes to stderr, where no pipe picks it up."""
    console = console or Console(stderr=True, emoji=False)
    if not show:
        yield lambda state: None
    elif console.is_terminal and not console.is_jupyter:
        with _bars(console, name, cores) as display:
            yield display
    else:
        yield _log(console, name, cores)


@contextmanager
def _bars(console: Console, name: str, cores: int) -> Iterator[Display]:
    text = Column(no_wrap=True)
    columns = (
        TextColumn("{task.description}", table_column=text, markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[text]}", table_column=text, markup=False),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        whole = progress.add_task(name, total=1.0, text="starting")
        lines: dict[str, TaskID] = {}
        told = False

        def display(state: State) -> None:
            nonlocal told
            if state.note:
                console.print(state.note, highlight=False, markup=False)
            if not told and state.left is not None:
                told = True
                console.print(_estimate(state, cores), highlight=False, markup=False)
            progress.update(whole, completed=state.share, text=_text(state))
            shown = {cell: (share, value) for cell, share, value in state.running[:_MOST_LINES]}
            for gone in set(lines) - set(shown):
                progress.remove_task(lines.pop(gone))
            for cell, (share, value) in shown.items():
                if cell not in lines:
                    lines[cell] = progress.add_task(f"  {cell}", total=1.0, text="")
                progress.update(lines[cell], completed=share, text=value)

        yield display


def _log(console: Console, name: str, cores: int) -> Display:
    written, told, ended, last = monotonic(), False, -1, ""

    def display(state: State) -> None:
        nonlocal written, told, ended, last
        if state.note:
            console.print(state.note, highlight=False, markup=False, soft_wrap=True)
        if not told and state.left is not None and state.running:
            told = True
            console.print(_estimate(state, cores), highlight=False, markup=False, soft_wrap=True)
        number = state.done + state.failed
        if (number != ended or monotonic() - written >= _LOG_SECONDS) and _text(state) != last:
            written, ended, last = monotonic(), number, _text(state)
            console.print(f"{name}: {last}", highlight=False, markup=False, soft_wrap=True)

    return display


def _estimate(state: State, cores: int) -> str:
    assert state.left is not None
    rest = state.total - state.done - state.failed
    return f"{counted(rest)} to go: about {clock(state.left)} on {cores} core{'s' * (cores > 1)}, as measured so far."


def _text(state: State) -> str:
    failed = f", {state.failed} failed" if state.failed else ""
    ended = state.done + state.failed >= state.total
    left = "" if ended else f" · {clock(state.left)} left" if state.left is not None else " · measuring"
    return f"{state.done}/{state.total} cells{failed}{left}"


def counted(cells: int) -> str:
    return f"{cells} cell{'s' * (cells != 1)}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
