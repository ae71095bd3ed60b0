"""The live server on a free port of this machine, for as long as a test needs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from afbs.report.live import application


@contextmanager
def served(root: Path, **more: Any) -> Iterator[str]:
    app = application(root, **more)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        while not server.started:
            threading.Event().wait(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
