"""Processes that were started and must be stopped: exactly those, with whatever they started, and nothing else.

A process is known by its number and the moment at which it began, so that a number that is used again is noticed. Each
leads a group of its own; and whatever it starts, there or elsewhere, carries a mark in its environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from afbs.types import UserError

_TERM_SECONDS = 10.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """Something that was started. `began` is the kernel's word for when."""

    name: str
    pid: int
    began: int

    @property
    def alive(self) -> bool:
        return _began(self.pid) == self.began


class Household:
    """Starts and stops them. `mark` is a setting that all of them, and what they start, have in their environment."""

    def __init__(self, mark: str, value: str):
        if not _PROC.is_dir():
            raise UserError("A fleet on this machine needs Linux: it finds its processes in /proc.")
        self._mark, self._value = mark, value
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        """Of what was started from this very process: they must be waited for, or their remains stay."""

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
        with log.open("ab") as output:
            started = subprocess.Popen(
                command,
                env={**environment, self._mark: self._value},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[started.pid] = started
        return Process(name, started.pid, _began(started.pid))

    def end(self, processes: Sequence[Process], number: int = signal.SIGTERM) -> None:
        """Each with its group; who does not go is made to."""
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

    def marked(self) -> list[int]:
        """Everything that runs and has the mark: what was started, and what that started."""
        mark = f"{self._mark}={self._value}".encode()
        found = []
        for place in _PROC.glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0") and _began(int(place.name)) >= 0:
                    found.append(int(place.name))
        return found

    def end_marked(self) -> None:
        limit = time.monotonic() + _TERM_SECONDS
        while self.marked() and time.monotonic() < limit:  # most end by themselves
            time.sleep(0.2)
        limit = time.monotonic() + _TERM_SECONDS
        while (
            left := self.marked()
        ) and time.monotonic() < limit:  # who was killed may take a moment to be gone, or have started another
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for child in self._children.values():
            child.wait()
        self._children.clear()


def search_path() -> str:
    """Flower starts its parts by name: those that belong to this Python come first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _began(pid: int) -> int:
    """When a process began, in the kernel's ticks; -1 if there is none, or only its remains."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])
