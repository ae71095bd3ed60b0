"""A run can be watched: as a bar, as a line that changes, or as lines in a log."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from afbs import progress
from afbs.progress import shown, watched
from afbs.record.recorder import Progress

HALF = Progress(time=43_200.0, version=7, trained=70, value=0.5, wall=2.0)
DONE = Progress(time=86_400.0, version=14, trained=140, value=0.75, wall=4.0)


def test_a_terminal_gets_a_bar_that_ends_full() -> None:
    out = io.StringIO()
    with shown("mine [b]", 86_400.0, Console(file=out, force_terminal=True, force_jupyter=False, width=120)) as observe:
        observe(HALF)
        observe(DONE)
    text = out.getvalue()
    assert "mine [b]" in text
    assert "day 1.00/1 · v14 · acc. 75.0%" in text


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line is due after thirty seconds, which pass between the two reports."""
    clock = iter((0.0, 1.0, 31.0, 31.0))
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    out = io.StringIO()
    with shown("mine", 86_400.0, Console(file=out, width=40)) as observe:
        observe(HALF)
        assert out.getvalue() == ""
        observe(DONE)
    assert out.getvalue() == "mine: day 1.00/1 · v14 · acc. 75.0% · 35 updates/s · done\n"


def test_a_notebook_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Any:
        said.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: said.append(content["text/plain"]))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display)))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with shown("mine", 86_400.0, Console(force_jupyter=True, width=80)) as observe:
        observe(HALF)
        observe(DONE)
    assert said[0] == "mine: starting"
    assert said[1].startswith(f"mine {'█' * 12}{'░' * 12} day 0.50/1")
    assert said[-1].startswith(f"mine {'█' * 24} day 1.00/1")


def test_the_users_own_observer_is_told_besides_the_display(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    with watched("mine", 86_400.0, True, seen.append) as observe:
        assert observe is not None
        observe(HALF)
    assert seen == [HALF]
    assert capsys.readouterr().out == ""


def test_without_a_display_the_users_own_observer_is_all_there_is() -> None:
    with watched("mine", 86_400.0, False) as observe:
        assert observe is None
    with watched("mine", 86_400.0, False, print) as observe:
        assert observe is print
