"""`afbs node`: a SuperNode whose messages cost a fork instead of a new Python.

A SuperNode starts `flwr-clientapp` by name, once a message, and most of a message's cost is that process importing
Flower, numpy and torch. Here the SuperNode finds a small stand-in of that name first: it hands its arguments to this
process, which has everything loaded and forks. Nothing of Flower is changed; without it everything works the same.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType

from afbs.apps.processes import search_path
from afbs.types import UserError

_COMMAND = "flwr-clientapp"
_LOADED = ("numpy", "torch", "safetensors.numpy", "afbs.apps.client", "afbs.clients.trainer", "afbs.clients.own")
_MOST = 1 << 20
_STAND_IN = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    told = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(line, [len(told).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(told)
    code = line.recv(1)
sys.exit(code[0] if code else 1)
"""


def run_node(arguments: Sequence[str]) -> int:
    """Start `flower-supernode` with these arguments and serve it until it ends; gives its exit code."""
    executable = shutil.which("flower-supernode", path=search_path())
    if executable is None:
        raise UserError("Flower is not installed here: pip install 'afbs[flower]'")
    with tempfile.TemporaryDirectory(prefix="afbs-node-") as place, socket.socket(socket.AF_UNIX) as door:
        address = str(Path(place) / "line")
        door.bind(address)
        door.listen(16)
        stand_in = Path(place) / _COMMAND
        stand_in.write_text(_STAND_IN.format(python=sys.executable, address=address))
        stand_in.chmod(0o700)
        os.environ["PATH"] = f"{place}{os.pathsep}{search_path()}"
        supernode = os.posix_spawn(executable, [executable, *arguments], os.environ)
        _forward_signals(supernode)
        return _serve(door, supernode)


def _serve(door: socket.socket, supernode: int) -> int:
    main = _clientapp()
    for module in _LOADED:
        import_module(module)
    while True:
        ready, _, _ = select.select([door], [], [], 0.5)
        if ready:
            line, _ = door.accept()
            with line:
                if os.fork() == 0:
                    door.close()
                    _be(main, line)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1
            if pid == 0:
                break
            if pid == supernode:
                return os.waitstatus_to_exitcode(status)


def _be(main: object, line: socket.socket) -> None:
    """In the fork: become the process that the SuperNode meant to start. Does not return."""
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        size, files, _, _ = socket.recv_fds(line, 4, 3)
        for target, file in enumerate(files):
            os.dup2(file, target)
            os.close(file)
        arguments, environment, folder = json.loads(_received(line, int.from_bytes(size, "big")))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = [_COMMAND, *arguments]
        threading.Thread(target=_end_with, args=(line,), daemon=True).start()
        main()  # type: ignore[operator]
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            line.sendall(bytes([code & 255]))
        finally:
            os._exit(code & 255)


def _end_with(line: socket.socket) -> None:
    """Whoever kills the stand-in means this process."""
    if not line.recv(1):
        os._exit(1)


def _received(line: socket.socket, size: int) -> bytes:
    if size > _MOST:
        raise ValueError("The stand-in told more than a command line and an environment.")
    told = b""
    while len(told) < size:
        part = line.recv(size - len(told))
        if not part:
            raise ValueError("The stand-in is gone.")
        told += part
    return told


def _clientapp() -> object:
    """What the command of this name runs."""
    (found,) = entry_points(group="console_scripts", name=_COMMAND)
    return found.load()


def _forward_signals(supernode: int) -> None:
    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(supernode, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
