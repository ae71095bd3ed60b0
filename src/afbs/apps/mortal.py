"""A ServerApp that ends when it is told to.

When a SuperLink dies, Flower signals its ServerApps. But Flower's own calls ask for ever for a SuperLink that is gone,
and a thread that waits in one never gets to see its signal. So another thread listens.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS = 20.0


def _end() -> None:
    os._exit(1)


@contextmanager
def mortal(say: Callable[[str], None], seconds: float = _SECONDS, end: Callable[[], None] = _end) -> Iterator[None]:
    """After a signal to stop the process has so long to come to an end by itself; then it ends as if it were killed.

    Nothing is lost by that: what was acknowledged is on disk before it is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while told := os.read(reading, 1):
            if told[0] in (signal.SIGINT, signal.SIGTERM):
                time.sleep(seconds)
                say("It was told to stop and is stuck: ending. Started again with its folder, the run goes on.")
                end()
        os.close(reading)

    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
