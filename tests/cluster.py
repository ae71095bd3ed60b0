"""A real Flower cluster for tests, on the loopback address alone, and runs of a small app on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from afbs.apps.cluster import CONNECTION, Cluster
from afbs.apps.project import write_project

SETTINGS = "training.epochs=1 training.lr=0.1 evaluation.every=2 transport.poll_seconds=0.2"


class Trial:
    """A fleet, an app, and runs of it."""

    def __init__(self, place: Path):
        self.place = place
        self.cluster = Cluster(place / "fleet")
        self.app = place / "trial"
        self.folder = place / "run"
        self.started: list[subprocess.Popen[bytes]] = []
        write_project(self.app)

    def submit(self, settings: str) -> subprocess.Popen[bytes]:
        """`flwr run`, which ends when the run does."""
        command = ["flwr", "run", str(self.app), CONNECTION, "--stream"]
        command += ["--run-config", f'set="{SETTINGS} {settings}" folder="{self.folder}"']
        environment = self.cluster.environment()
        with (self.place / "flwr-run.log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.started.append(process)
        return process

    def recorded(self, *kinds: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [line for line in map(json.loads, lines) if not kinds or line["event"] in kinds]

    def wait(self, what: str, until: Callable[[], object], seconds: float) -> None:
        limit = time.monotonic() + seconds
        while not until():
            if time.monotonic() > limit:
                raise AssertionError(f"{what} did not happen within {seconds:.0f} s; logs are in {self.place}.")
            time.sleep(0.3)

    def log(self, name: str) -> str:
        return (self.cluster.folder / "logs" / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.cluster.down()

    def servers(self) -> list[int]:
        """The processes of ServerApps that run now."""
        found = []
        for pid in self.cluster.stragglers():
            try:
                if b"flwr-serverapp" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return found

    def kill_server(self) -> None:
        (server,) = self.servers()
        os.kill(server, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait()
        self.started.clear()
