"""Flower apps: what a Flower user names in `pyproject.toml`.

    # client_app.py                                  # server_app.py
    from afbs.apps import client_app                 from afbs.apps import server_app
    app = client_app("afbs.toml", load=load)         app = server_app("afbs.toml")

`afbs.toml` is a configuration like any other, with `[transport] name = "flower"`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afbs.apps.client import client_app
    from afbs.apps.data import shard
    from afbs.apps.server import server_app
    from afbs.clients.own import Lesson

__all__ = ["Lesson", "client_app", "server_app", "shard"]
_HOMES = {
    "Lesson": "afbs.clients.own",
    "client_app": "afbs.apps.client",
    "server_app": "afbs.apps.server",
    "shard": "afbs.apps.data",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: a node answers most questions without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'afbs.apps' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "flwr":
            raise ModuleNotFoundError("Flower is not installed: pip install 'afbs[flower]'", name="flwr") from None
        raise
