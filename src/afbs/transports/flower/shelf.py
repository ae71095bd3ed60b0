"""What waits on a node's disk: trained vectors until the server has them or lets them go, states, promises, and who the
node is. Every file is written beside and renamed, so it is there whole or not at all.

    identity                      the node's own secret, from which its token and its label secrets come
    <experiment>/order-7.st       the vector of order 7 and the facts of its training
    <experiment>/state-7.st       what the client remembers at the end of order 7, where its algorithm has it remember
    labels/<name>.st              what a label mechanism's half must not forget
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from afbs.privacy.keys import derive
from afbs.privacy.messages import Message, packed, unpacked
from afbs.record.writer import replace_file
from afbs.types import UserError, Vector


@final
class Shelf:
    """A folder that belongs to one node."""

    def __init__(self, folder: Path):
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UserError(f"The node's folder {folder} cannot be made: {error.strerror}.") from error
        self._secret = self._identity()

    @property
    def token(self) -> str:
        """Proves to the server that this is the node that it was."""
        return derive(self._secret, "node/token").hex()

    def own_secret(self, purpose: str) -> bytes:
        return derive(self._secret, f"node/labels/{purpose}")

    # vectors

    def put(
        self, experiment: str, order: int, vector: Vector, facts: Mapping[str, Any], room: tuple[int, float]
    ) -> None:
        """Keeps a vector; what is too old or does not fit beside it into `room` (bytes, seconds) goes, oldest first."""
        place = self._place(experiment)
        content = save({"vector": np.ascontiguousarray(vector)}, {"facts": json.dumps(dict(facts))})
        self._make_room(room[0] - len(content), room[1])
        self._forget(experiment, room[1])
        replace_file(place / f"order-{order}.st", content)

    def get(self, experiment: str, order: int) -> tuple[Vector, dict[str, Any]] | None:
        try:
            with safe_open(self._folder / experiment / f"order-{order}.st", framework="numpy") as file:
                return file.get_tensor("vector"), json.loads(file.metadata()["facts"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):  # as good as not there: train it again
            return None

    def held(self, experiment: str) -> list[int]:
        return sorted(int(path.stem[6:]) for path in (self._folder / experiment).glob("order-*.st"))

    def let_go(self, experiment: str, orders: Iterable[int]) -> None:
        for order in orders:
            (self._folder / experiment / f"order-{order}.st").unlink(missing_ok=True)

    def _make_room(self, size: int, age: float) -> None:
        found = []
        for path in self._folder.glob("*/order-*.st"):
            with suppress(FileNotFoundError):
                facts = path.stat()
                found.append((facts.st_mtime, facts.st_size, path))
        total = sum(each[1] for each in found)
        for written, bytes_, path in sorted(found):
            if total <= size and time() - written <= age:
                break
            path.unlink(missing_ok=True)
            total -= bytes_

    def _forget(self, experiment: str, age: float) -> None:
        """What was remembered in another experiment goes once it is too old; in this one it is needed, however old."""
        for path in self._folder.glob("*/state-*.st"):
            with suppress(FileNotFoundError):
                if path.parent.name != experiment and time() - path.stat().st_mtime > age:
                    path.unlink()

    # states

    def put_state(self, experiment: str, order: int, state: Vector) -> None:
        replace_file(self._place(experiment) / f"state-{order}.st", save({"state": np.ascontiguousarray(state)}))

    def state(self, experiment: str, order: int, size: int) -> Vector:
        """What the client remembers at the end of `order`; zeros if there is no order. Older ones are not needed."""
        place = self._place(experiment)
        if order < 0:
            return np.zeros(size, np.float32)
        path = place / f"state-{order}.st"
        try:
            with safe_open(path, framework="numpy") as file:
                state: Vector = file.get_tensor("state")
        except (OSError, SafetensorError) as error:
            raise UserError(f"What this client remembers of order {order} is not on its disk any more.") from error
        for old in place.glob("state-*.st"):
            if int(old.stem[6:]) < order:
                old.unlink(missing_ok=True)
        return state

    # promises

    def remembered(self, name: str) -> Message | None:
        path = self._folder / "labels" / f"{name}.st"
        return unpacked(path.read_bytes()) if path.exists() else None

    def remember(self, name: str, memory: Message) -> None:
        folder = self._folder / "labels"
        folder.mkdir(exist_ok=True)
        replace_file(folder / f"{name}.st", packed(memory))

    def _place(self, experiment: str) -> Path:
        place = self._folder / experiment
        place.mkdir(exist_ok=True)
        return place

    def _identity(self) -> bytes:
        path = self._folder / "identity"
        if not path.exists():
            beside = path.with_name(f"identity.{os.getpid()}")
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(32))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process of this node was quicker
                os.link(beside, path)
            beside.unlink()
        secret = path.read_bytes()
        if len(secret) != 32:
            raise UserError(f"{path} is damaged: it must have 32 bytes. Without it the node is somebody else.")
        return secret
