"""A page of every command, made from what `--help` says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from afbs.cli import app

_HEAD = """# Commands

Made from what `--help` says.

Exit codes: 0 fine, 1 the run failed, 2 what you wrote is wrong, 130 stopped with Ctrl-C (and saved).

"""


def pages() -> dict[str, str]:
    whole = typer.main.get_command(app)
    return {"reference/commands.md": _HEAD + "".join(_sections(whole, "afbs"))}


def _sections(command: Any, name: str) -> Iterator[str]:
    """The command's own, and those of the commands below it."""
    if name != "afbs":
        yield f"## `{name}` {{ #{name.replace(' ', '-')} }}\n\n"
    yield f"```console\n$ {name} {_usage(command)}\n```\n\n" if not hasattr(command, "commands") else ""
    yield inspect.cleandoc(command.help or "") + "\n\n"
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    rows = [f"| {_names(each)} | {_told(each)} |" for each in shown]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows]) + "\n\n"
    for below, inner in getattr(command, "commands", {}).items():
        yield from _sections(inner, f"{name} {below}")


def _usage(command: Any) -> str:
    words = ["[OPTIONS]"] + [_value(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join(words)


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_value(param)}`"
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} `{_value(param)}`"


def _value(param: Any) -> str:
    return str(param.metavar or (param.name if param.param_type_name == "argument" else param.type.name).upper())


def _told(param: Any) -> str:
    default = param.default
    said = (getattr(param, "help", "") or "").replace("|", "\\|")
    shown = not getattr(param, "is_flag", False) and default not in (None, "") and not callable(default)
    return f"{said} Default: `{default}`." if shown else said
