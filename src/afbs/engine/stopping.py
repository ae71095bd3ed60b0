"""How a run is stopped from outside, at a moment at which nothing is lost."""

from __future__ import annotations

from typing import Protocol

from afbs.engine.outbox import Listener
from afbs.engine.server import Server


class SafelyStopped(KeyboardInterrupt):
    """Somebody asked the run to stop, and it has come to a moment at which it can be saved."""


class Stoppable(Protocol):
    """A run, as far as stopping it goes."""

    server: Server
    listener: Listener
    stopping: bool


def stop_if_asked(run: Stoppable) -> None:
    """Says how far the run has come, and ends it if a signal handler or whoever was told wants it to end."""
    try:
        run.listener.progress(run.server.time, run.server.version, run.server.counts.trained)
    except KeyboardInterrupt:
        raise SafelyStopped from None
    if run.stopping:
        raise SafelyStopped
