"""The command line. Each file beside this one adds its commands.

Exit codes: 0 fine, 1 the run failed, 2 what the user wrote is wrong, 130 stopped with Ctrl-C (and saved).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import afbs
from afbs.types import RunError, UserError
from afbs.version import VERSION

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="Start with: afbs quickstart",
)
_FIRST = ("quickstart", "runs")


def _told(version: bool) -> None:
    if version:
        typer.echo(f"afbs {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_told, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Semi-asynchronous federated learning: decide first, train after."""


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


for file in sorted(pkgutil.iter_modules(__path__), key=lambda file: _place(file.name)):
    if not file.name.startswith("_"):
        importlib.import_module(f"afbs.cli.{file.name}").add(app)


def main() -> None:
    """The entry point: a user's mistake gets a sentence, not a traceback."""
    try:
        app()
    except UserError as error:
        _complain(error)
        sys.exit(2)
    except RunError as error:
        _complain(error)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        told = theirs(error)
        if not told:
            raise  # a mistake of ours: everything about it may matter
        _complain(error, f"Your own code raised {type(error).__name__}:", told)
        sys.exit(1)


def theirs(error: BaseException) -> str:
    """The part of a traceback that is in a user's own files, if that is where it ends."""
    ours = str(Path(afbs.__file__).parent)
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((ours, *libraries, "<frozen"))]
    last = frames[-1].filename if frames else ""
    return "".join(traceback.format_list(own)) if own and not last.startswith(ours) else ""


def _complain(error: Exception, opening: str = "Error:", before: str = "") -> None:
    console = Console(stderr=True, soft_wrap=True, emoji=False)  # `a:x:b` is a user's text, not a cross
    if before:
        console.print(_escaped(before.rstrip()), highlight=False)
    console.print(f"[bold red]{opening}[/] {_escaped(str(error))}", highlight=False)
    for sentence in getattr(error, "__notes__", ()):
        console.print(_escaped(sentence), highlight=False)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
