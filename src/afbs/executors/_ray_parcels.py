"""What travels between the server, the process that talks to Ray and Ray's actors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afbs.types import Evaluate, Matrix, Train, Vector

ARRAYS = ("train_x", "train_y", "test_x", "test_y")
CALLS = 2
"""Calls that an actor has at hand, so that it finds the next one when it is done with the last."""


class Handed(NamedTuple):
    """A task as the server hands it over: the slots of its client's old and new state, and the version it starts from.

    A slot is used again, a version's number never.
    """

    task: Train | Evaluate
    slots: tuple[int, ...]
    version: int


class Given(NamedTuple):
    """A task as an actor without the server's memory is given it, with what its client remembers."""

    task: Train | Evaluate
    version: int
    state: Vector | None


class Reply(NamedTuple):
    """How a call ended. `problem` is "refused" or "failed" with a text; else there are results, and their vectors where
    they are not in the server's memory."""

    results: tuple[Any, ...] = ()
    vectors: Matrix = np.empty((0, 0), np.float32)
    problem: str = ""
    text: str = ""


class Met(NamedTuple):
    """What an actor says of itself: the arrays its node has no file of; its process, if it has the server's memory."""

    lacks: list[str]
    process: int | None


class Where(NamedTuple):
    """An array of the data: the file that holds it where the server is, and what shows that another is the same."""

    path: str
    mark: str
