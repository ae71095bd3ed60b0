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
PATIENCE = 900.0
"""Seconds after which an event will not come any more, on however busy a machine."""
GATED = """
import os
import time
from pathlib import Path

from afbs.apps import client_app
from trial.dataset import load

HERE = Path(__file__).parent
GATE, WAITS = Path({gate!r}), Path(os.environ.get("FLWR_HOME", ".")).parent / "waits"


def train(network, data, lesson):
    import torch

    while GATE.exists():
        WAITS.touch()
        time.sleep(0.1)
    WAITS.unlink(missing_ok=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=lesson.rate)
    for x, y in torch.utils.data.DataLoader(data, lesson.batch_size, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return {{"samples": len(data)}}


app = client_app(HERE / "afbs.toml", load=load, train=train)
"""
"""An app whose nodes train with a function of their own, which waits while there is a gate."""


def recorded(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


class Trial:
    """A fleet, an app, and runs of it."""

    def __init__(self, place: Path):
        self.place = place
        self.cluster = Cluster(place / "fleet")
        self.app = place / "trial"
        self.folder = place / "run"
        self.gate = place / "gate"
        self.started: list[subprocess.Popen[bytes]] = []
        write_project(self.app)

    def with_gate(self) -> None:
        (self.app / "trial" / "client_app.py").write_text(GATED.format(gate=str(self.gate)))

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
        return [line for line in recorded(self.folder) if not kinds or line["event"] in kinds]

    def wait(self, what: str, until: Callable[[], object]) -> None:
        limit = time.monotonic() + PATIENCE
        while not until():
            if time.monotonic() > limit:
                raise AssertionError(f"{what} did not happen; logs are in {self.place}.")
            broken = [line["what"] for line in self.recorded("remark") if "its app raised an error" in line["what"]]
            if len(broken) > 3:
                raise AssertionError(f"{what} will not happen: {broken[-1]}; logs are in {self.place}.")
            time.sleep(0.2)

    def shut_the_gate(self) -> set[int]:
        """Wait until everybody who has an order stands before it, so that nobody's update is on its way; say who."""
        self.gate.touch()
        self.wait("Everybody at the gate", lambda: self._waiting() and self._waiting() == self._at_work())
        return self._waiting()

    def _waiting(self) -> set[int]:
        return {int(path.parent.name) for path in (self.cluster.folder / "nodes").glob("*/waits")}

    def _at_work(self) -> set[int]:
        record = self.recorded()
        over = {line["order"] for line in record if line["event"] in ("arrival", "lost")}
        return {line["client"] for line in record if line["event"] == "dispatch" and line["sequence"] not in over}

    def stepped(self, steps: int) -> None:
        self.wait(f"Step {steps}", lambda: len(self.recorded("step")) >= steps)

    def ended(self) -> None:
        self.wait("The end", (self.folder / "result.json").exists)

    def log(self, name: str) -> str:
        path = self.cluster.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.cluster.down()

    def revive(self, warm: bool = False) -> None:
        """Start the nodes that are not there. Flower turns one away that it has not missed yet; then it is tried again
        the next time."""
        for process in self.cluster.processes():
            if process.name != "superlink" and not process.alive:
                self.cluster.add_node(int(process.name.removeprefix("node ")), warm=warm)

    def servers(self) -> list[int]:
        """The processes of ServerApps that run now."""
        found = []
        for pid in self.cluster.running():
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
