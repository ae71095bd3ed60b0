"""How commands that run something tell what came of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from afbs.types import RunError


@contextmanager
def explained() -> Iterator[None]:
    """A run that was stopped or failed ends the command with a sentence and its exit code."""
    from afbs.experiment import Interrupted

    try:
        yield
    except Interrupted as stop:
        note(str(stop))
        sys.exit(130)
    except RunError as error:
        errors = Console(stderr=True, soft_wrap=True, emoji=False)
        errors.print(f"[bold red]The run failed:[/] {escape(str(error))}", highlight=False)
        for sentence in getattr(error, "__notes__", ()):
            errors.print(escape(sentence), highlight=False)
        sys.exit(1)


def note(text: str) -> None:
    Console(emoji=False).print(escape(text), highlight=False, soft_wrap=True)
