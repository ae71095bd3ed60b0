"""`afbs fleet`: a SuperLink and some SuperNodes on this machine, on its loopback address alone.

What was started stands in `fleet.json` of the fleet's folder: each process with its number and the moment at which it
began, so that what is stopped is exactly that. Every one leads a group of its own, and whatever it starts, there or
elsewhere, carries the fleet's folder in its environment.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from afbs.apps.keys import LOOPBACK, make_certificates, make_node_key, write_secret
from afbs.types import RunError, UserError

CONNECTION = "fleet"
_MARK = "AFBS_FLEET"
_PATIENCE = 90.0
_TERM_SECONDS = 10.0


@dataclass(frozen=True)
class Process:
    """Something that was started. `began` is the kernel's word for when, so that a number used again is noticed."""

    name: str
    pid: int
    began: int

    @property
    def alive(self) -> bool:
        return _began(self.pid) == self.began


class Cluster:
    """One fleet and its folder."""

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        """Of what was started from this very process: they must be waited for, or their remains stay."""

    @property
    def _list(self) -> Path:
        return self.folder / "fleet.json"

    def processes(self) -> list[Process]:
        if not self._list.exists():
            return []
        return [Process(**each) for each in json.loads(self._list.read_text())["processes"]]

    @property
    def port(self) -> int:
        return int(json.loads(self._list.read_text())["port"])

    # up

    def up(self, nodes: int, runs: Path, *, insecure: bool = False, warm: bool = False) -> list[Process]:
        """Make keys, start a SuperLink, let it know the nodes' keys, and start the nodes."""
        if any(process.alive for process in self.processes()):
            raise UserError(f"The fleet in {self.folder} is up already. First: afbs fleet down")
        if shutil.which("flower-superlink", path=_path()) is None:
            raise UserError("Flower is not installed here: pip install 'afbs[flower]'")
        for old in ("logs", "flwr", "keys", "superlink.db"):
            place = self.folder / old
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        for new in ("logs", "flwr", "keys", "nodes"):
            (self.folder / new).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "label-secret").exists():
            write_secret(self.folder / "label-secret", secrets.token_hex(32).encode())
        port = free_port()
        self._write([], port, insecure)
        connection: dict[str, object] = {"address": f"{LOOPBACK}:{port}"}
        if insecure:
            connection["insecure"] = True
        else:
            make_certificates(self.folder / "keys")
            connection["root-certificates"] = str(self.folder / "keys" / "ca.crt")
        config = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.folder / "flwr" / "config.toml").write_text(tomli_w.dumps(config))
        try:
            self._start_link(port, runs.absolute(), insecure)
            for number in range(nodes):
                self.add_node(number, warm=warm)
        except BaseException:
            self.down()
            raise
        return self.processes()

    def _start_link(self, port: int, runs: Path, insecure: bool) -> None:
        self.runs = runs
        keys = self.folder / "keys"
        tls = [
            f"--ssl-ca-certfile={keys / 'ca.crt'}",
            f"--ssl-certfile={keys / 'server.crt'}",
            f"--ssl-keyfile={keys / 'server.key'}",
            "--enable-supernode-auth",
        ]
        command = ["flower-superlink", "--host", LOOPBACK, "--port", str(port)]
        command += ["--database", str(self.folder / "superlink.db"), "--disable-runtime-dependency-installation"]
        command += ["--insecure"] if insecure else tls
        process = self._start("superlink", command, {"FLWR_HOME": str(self.folder / "flwr"), "AFBS_RUNS": str(runs)})
        limit = time.monotonic() + _PATIENCE
        while not _listens(port):
            if not process.alive or time.monotonic() > limit:
                raise RunError(f"The SuperLink did not come up. Its log: {self.folder / 'logs' / 'superlink.log'}")
            time.sleep(0.2)

    def restart_link(self) -> None:
        """Start the SuperLink again after it was stopped or killed: same port, same keys, same database."""
        facts = json.loads(self._list.read_text())
        self.stop("superlink")
        self._start_link(facts["port"], Path(os.environ.get("AFBS_RUNS", "runs")).absolute(), facts["insecure"])

    def add_node(self, number: int, *, key: Path | None = None, register: bool = True, warm: bool = False) -> Process:
        """Start a SuperNode, with a key that the SuperLink was told unless `register` is False; or an `afbs node`."""
        facts = json.loads(self._list.read_text())
        home = self.folder / "nodes" / str(number)
        home.mkdir(parents=True, exist_ok=True)
        command = ["afbs", "node"] if warm else ["flower-supernode"]
        command += ["--superlink", f"{LOOPBACK}:{facts['port']}"]
        command += ["--host", LOOPBACK, "--port", str(free_port())]
        command += ["--node-config", f'partition-id={number} home="{home}"']
        if facts["insecure"]:
            command.append("--insecure")
        else:
            path = key or self.folder / "keys" / f"node-{number}.key"
            if not path.exists():
                make_node_key(path)
                if register:
                    self.flwr("supernode", "register", f"{path}.pub", CONNECTION)
            command += ["--root-certificates", str(self.folder / "keys" / "ca.crt")]
            command += ["--auth-supernode-private-key", str(path)]
        secret = (self.folder / "label-secret").read_text()
        settings = {"FLWR_HOME": str(home / "flwr"), "AFBS_LABEL_SECRET": secret}
        return self._start(f"node {number}", command, settings)

    def flwr(self, *arguments: str, timeout: float = 120.0) -> str:
        """What `flwr` says, with this fleet as the one it knows."""
        try:
            done = subprocess.run(
                ["flwr", *arguments],
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"`flwr {arguments[0]}` did not end within {timeout:.0f} s.") from error
        if done.returncode:
            raise RunError(f"`flwr {' '.join(arguments)}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        home = {"FLWR_HOME": str(self.folder / "flwr")}
        return {**os.environ, **quiet, **home, **(more or {}), "PATH": _path()}

    def _start(self, name: str, command: Sequence[str], settings: Mapping[str, str]) -> Process:
        log = self.folder / "logs" / f"{name.replace(' ', '-')}.log"
        executable = shutil.which(command[0], path=_path()) or command[0]
        with log.open("ab") as output:
            started = subprocess.Popen(
                [executable, *command[1:]],
                env=self.environment({**settings, _MARK: str(self.folder)}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[started.pid] = started
        process = Process(name, started.pid, _began(started.pid))
        facts = json.loads(self._list.read_text())
        others = [each for each in self.processes() if each.name != name]
        self._write([*others, process], facts["port"], facts["insecure"])
        return process

    def _write(self, processes: Sequence[Process], port: int, insecure: bool) -> None:
        facts = {"port": port, "insecure": insecure, "processes": [asdict(each) for each in processes]}
        beside = self._list.with_suffix(".part")
        beside.write_text(json.dumps(facts, indent=1))
        beside.replace(self._list)

    # down

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """One of them, with whatever it started."""
        for process in self.processes():
            if process.name == name:
                self._end([process], number)

    def _end(self, processes: Sequence[Process], number: int) -> None:
        for process in processes:
            if process.alive:
                _signal_group(process.pid, number)
        limit = time.monotonic() + _TERM_SECONDS
        while any(process.alive for process in processes) and time.monotonic() < limit:
            time.sleep(0.1)
        for process in processes:
            if process.alive:
                _signal_group(process.pid, signal.SIGKILL)
            child = self._children.pop(process.pid, None)
            if child is not None:
                child.wait()

    def stragglers(self) -> list[int]:
        """Processes that one of ours started and that outlived it."""
        mark = f"{_MARK}={self.folder}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0") and _began(int(place.name)) >= 0:
                    found.append(int(place.name))
            except OSError:
                continue
        return found

    def _end_stragglers(self) -> None:
        limit = time.monotonic() + _TERM_SECONDS
        while self.stragglers() and time.monotonic() < limit:  # most end by themselves
            time.sleep(0.2)
        for pid in self.stragglers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def down(self) -> list[Process]:
        """Stop everything that was started, nodes first; gives what was alive."""
        alive = [process for process in self.processes() if process.alive]
        self._end([process for process in alive if process.name != "superlink"], signal.SIGTERM)
        self._end([process for process in alive if process.name == "superlink"], signal.SIGTERM)
        self._end_stragglers()
        for child in self._children.values():
            child.wait()
        self._children.clear()
        if self._list.exists():
            facts = json.loads(self._list.read_text())
            self._write([], facts["port"], facts["insecure"])
        return alive


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _began(pid: int) -> int:
    """When a process began, in the kernel's ticks; -1 if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _path() -> str:
    """Flower starts its parts by name: those that belong to this Python come first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
