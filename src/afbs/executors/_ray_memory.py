"""The server's memory, for those of Ray's workers that run on its machine: what they train need not travel."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import NamedTuple, final


class Offer(NamedTuple):
    """Where the memory is: the node that the server talks to, an open file there, and what tells it from others."""

    node: str
    path: str
    file: tuple[int, int]


def offered(fd: int, node: str) -> Offer:
    return Offer(node, f"/proc/{os.getpid()}/fd/{fd}", _identity(fd))


def taken(offer: Offer, node: str) -> int | None:
    """A file descriptor of the memory; none on another node, or where one process may not have another's files."""
    if node != offer.node:
        return None
    try:
        fd = os.open(offer.path, os.O_RDWR)
    except OSError:
        return None
    if _identity(fd) != offer.file:
        os.close(fd)
        return None
    return fd


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


@final
class Neighbour:
    """A process on this machine that can be ended for certain: one that only seems to be dead, and still writes where
    others read by then, would spoil a run. Raises OSError where the system has no such thing."""

    def __init__(self, process: int):
        if not hasattr(os, "pidfd_open"):
            raise OSError("no file descriptors of processes")
        self._fd = os.pidfd_open(process)

    def end(self) -> None:
        """Returns when it writes no more. One that this user may not end is waited for."""
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
        select.select([self._fd], [], [])
        os.close(self._fd)
