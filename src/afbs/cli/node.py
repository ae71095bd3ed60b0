"""`afbs node`: a SuperNode that answers sooner."""

from __future__ import annotations

import sys

import typer


def add(app: typer.Typer) -> None:
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]}
    app.command("node", context_settings=settings)(node)


def node(context: typer.Context) -> None:
    """Start `flower-supernode` with the arguments that follow, and spare it a new Python for every message.

    A process that has Flower, torch and afbs loaded is kept and forks once a message; nothing else changes.

    Example: afbs node --superlink 192.0.2.1:8000 --root-certificates ca.crt --auth-supernode-private-key node.key
    """
    from afbs.apps.prefork import run_node

    sys.exit(run_node(context.args))
