"""Workers of Ray on the server's own machine have its memory; others do not, and none outlives being given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from afbs.executors._ray_memory import Neighbour, offered, taken

_TAKER = """
import os, sys
from afbs.executors._ray_memory import Offer, taken
fd = taken(Offer("here", sys.argv[1], (int(sys.argv[2]), int(sys.argv[3]))), "here")
print("none" if fd is None else os.pwrite(fd, b"written", 0))
"""


@pytest.fixture
def memory() -> Iterator[int]:
    fd = os.memfd_create("test")
    os.ftruncate(fd, 4096)
    yield fd
    os.close(fd)


def _taken_by_another_process(path: str, file: tuple[int, int]) -> str:
    command = [sys.executable, "-c", _TAKER, path, *map(str, file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_another_process_writes_where_this_one_reads(memory: int) -> None:
    offer = offered(memory, "here")
    assert _taken_by_another_process(offer.path, offer.file) == "7"
    assert os.pread(memory, 7, 0) == b"written"


def test_an_open_file_with_the_same_number_but_another_content_is_not_taken(memory: int) -> None:
    other = os.memfd_create("other")
    offer = offered(memory, "here")
    assert _taken_by_another_process(f"/proc/{os.getpid()}/fd/{other}", offer.file) == "none"
    os.close(other)


def test_nothing_is_taken_on_another_node_or_from_a_process_that_is_gone(memory: int) -> None:
    offer = offered(memory, "here")
    assert taken(offer, "there") is None
    assert taken(offer._replace(path="/proc/0/fd/0"), "here") is None


@pytest.mark.parametrize("state", ["at work", "stopped", "ended"])
def test_a_neighbour_that_is_ended_writes_no_more(state: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    neighbour = Neighbour(child.pid)
    if state == "stopped":
        child.send_signal(signal.SIGSTOP)
    if state == "ended":
        child.kill()
        child.wait()
    neighbour.end()
    assert child.wait(0.001 if state == "ended" else 5) == -signal.SIGKILL


def test_there_is_no_neighbour_without_a_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(OSError):
        Neighbour(child.pid)
