"""`afbs fleet`: a SuperLink and some SuperNodes on this machine, on its loopback address alone.

What was started stands in `fleet.json` of the fleet's folder, so that what is stopped is exactly that.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import tomli_w

from afbs.apps.keys import LOOPBACK, make_certificates, make_node_key, write_secret
from afbs.apps.processes import Household, Process, search_path
from afbs.types import RunError, UserError

CONNECTION = "fleet"
_LINK = "superlink"
_PATIENCE = 90.0


@dataclass(frozen=True)
class _State:
    """What `fleet.json` holds. `runs` is where run folders are made."""

    port: int = 0
    insecure: bool = False
    runs: str = "runs"
    processes: tuple[Process, ...] = ()


class Cluster:
    """One fleet and its folder."""

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        self._processes = Household("AFBS_FLEET", str(self.folder))

    def processes(self) -> Sequence[Process]:
        return self._state().processes

    @property
    def alive(self) -> bool:
        """Whether any of it is."""
        return any(process.alive for process in self.processes())

    @property
    def linked(self) -> bool:
        """Whether its SuperLink is."""
        return any(process.alive for process in self.processes() if process.name == _LINK)

    @property
    def port(self) -> int:
        return self._state().port

    @property
    def runs(self) -> Path:
        """Where run folders are made."""
        return Path(self._state().runs)

    @property
    def stopping(self) -> str:
        """The command that stops this fleet."""
        return f"afbs fleet down --fleet {shlex.quote(str(self.folder))}"

    # up

    def up(
        self,
        nodes: int,
        runs: Path,
        *,
        insecure: bool = False,
        warm: bool = False,
        tell: Callable[[Process], object] = lambda process: None,
    ) -> None:
        """Make keys, start a SuperLink, let it know the nodes' keys, and start the nodes. `tell` hears of each."""
        if self.alive:
            raise UserError(f"The fleet in {self.folder} is up already. First: {self.stopping}")
        if shutil.which("flower-superlink", path=search_path()) is None:
            raise UserError("Flower is not installed here: pip install 'afbs[flower]'")
        self._processes.end_marked()  # what a fleet that was killed has left
        self._clear()
        port = free_port()
        self._write(_State(port, insecure, str(runs.absolute())))
        connection: dict[str, object] = {"address": f"{LOOPBACK}:{port}"}
        if insecure:
            connection["insecure"] = True
        else:
            make_certificates(self.folder / "keys")
            connection["root-certificates"] = str(self.folder / "keys" / "ca.crt")
        config = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.folder / "flwr" / "config.toml").write_text(tomli_w.dumps(config))
        try:
            tell(self.start_link())
            self.register(range(nodes))
            for number in range(nodes):
                tell(self.add_node(number, warm=warm))
        except BaseException:
            self.down()
            raise

    def _clear(self) -> None:
        """Nothing of an earlier fleet is left, but for what its nodes keep, the secret that they share, and the apps
        that were run on it: who simulates a run again needs its network."""
        for old in ("logs", "keys"):
            shutil.rmtree(self.folder / old, ignore_errors=True)
        for part in self.folder.glob("superlink.db*"):  # a killed database leaves what it had not written into it yet
            part.unlink()
        for new in ("logs", "flwr", "keys", "nodes"):
            (self.folder / new).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "label-secret").exists():
            write_secret(self.folder / "label-secret", secrets.token_hex(32).encode())

    def start_link(self) -> Process:
        """Start the SuperLink; after it was stopped or killed, again: same port, same keys, same database."""
        state, keys = self._state(), self.folder / "keys"
        tls = [
            f"--ssl-ca-certfile={keys / 'ca.crt'}",
            f"--ssl-certfile={keys / 'server.crt'}",
            f"--ssl-keyfile={keys / 'server.key'}",
            "--enable-supernode-auth",
        ]
        command = ["flower-superlink", "--host", LOOPBACK, "--port", str(state.port)]
        command += ["--database", str(self.folder / "superlink.db"), "--disable-runtime-dependency-installation"]
        command += ["--insecure"] if state.insecure else tls
        process = self._start(_LINK, command, {"AFBS_RUNS": state.runs})
        limit = time.monotonic() + _PATIENCE
        while not _listens(state.port):
            if not process.alive or time.monotonic() > limit:
                raise RunError(self._not_up())
            time.sleep(0.2)
        return process

    def _not_up(self) -> str:
        log = self.folder / "logs" / f"{_LINK}.log"
        words = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return f"The SuperLink did not come up. It ended with {words[-1] if words else 'no word'!r}. Its log: {log}"

    def register(self, numbers: Sequence[int]) -> None:
        """Make these nodes' keys and let the SuperLink know them; several at a time, for each takes seconds."""
        if self._state().insecure:
            return

        def one(number: int) -> None:
            make_node_key(self._key(number))
            self.flwr("supernode", "register", f"{self._key(number)}.pub", CONNECTION)

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(one, numbers))

    def add_node(
        self, number: int, *, key: Path | None = None, warm: bool = False, settings: Mapping[str, str] | None = None
    ) -> Process:
        """Start a SuperNode, or with `warm` an `afbs node`; with the key that was registered, or the given one."""
        state = self._state()
        home = self.folder / "nodes" / str(number)
        home.mkdir(parents=True, exist_ok=True)
        command = ["afbs", "node"] if warm else ["flower-supernode"]
        command += ["--superlink", f"{LOOPBACK}:{state.port}"]
        command += ["--host", LOOPBACK, "--port", str(free_port())]
        command += ["--node-config", f'partition-id={number} home="{home}"']
        if state.insecure:
            command.append("--insecure")
        else:
            command += ["--root-certificates", str(self.folder / "keys" / "ca.crt")]
            command += ["--auth-supernode-private-key", str(key or self._key(number))]
        secret = (self.folder / "label-secret").read_text()
        own = {"FLWR_HOME": str(home / "flwr"), "AFBS_LABEL_SECRET": secret, **(settings or {})}
        return self._start(f"node {number}", command, own)

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
        return {**os.environ, **quiet, **home, **(more or {}), "PATH": search_path()}

    # down

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """One of them, with whatever it started."""
        self._processes.end([process for process in self.processes() if process.name == name], number)

    def down(self) -> list[Process]:
        """Stop everything that was started, nodes first; gives what was alive."""
        alive = [process for process in self.processes() if process.alive]
        self._processes.end([process for process in alive if process.name != _LINK])
        self._processes.end([process for process in alive if process.name == _LINK])
        self._processes.end_marked()
        if self._list.exists():
            self._write(replace(self._state(), processes=()))
        return alive

    def running(self) -> list[int]:
        """The numbers of all processes of the fleet, and of whatever they started."""
        return self._processes.marked()

    # what is known

    @property
    def _list(self) -> Path:
        return self.folder / "fleet.json"

    def _key(self, number: int) -> Path:
        return self.folder / "keys" / f"node-{number}.key"

    def _state(self) -> _State:
        if not self._list.exists():
            return _State()
        found = json.loads(self._list.read_text())
        return _State(**{**found, "processes": tuple(Process(**each) for each in found["processes"])})

    def _write(self, state: _State) -> None:
        beside = self._list.with_suffix(".part")
        beside.write_text(json.dumps(asdict(state), indent=1))
        beside.replace(self._list)

    def _start(self, name: str, command: Sequence[str], settings: Mapping[str, str]) -> Process:
        executable = shutil.which(command[0], path=search_path()) or command[0]
        log = self.folder / "logs" / f"{name.replace(' ', '-')}.log"
        process = self._processes.start(name, [executable, *command[1:]], self.environment(settings), log)
        state = self._state()
        others = tuple(each for each in state.processes if each.name != name)
        self._write(replace(state, processes=(*others, process)))
        return process


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
