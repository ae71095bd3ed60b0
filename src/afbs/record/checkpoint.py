"""Checkpoints: everything that cannot be had from the seed. They are safetensors files; nothing is unpickled.

A checkpoint holds the model, the algorithm's memory, the clients' states and every earlier version that a job under
way started from, with a digest over all of it. The two newest are kept: if the last one is damaged, the one before
serves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from afbs.record.schema import SCHEMA
from afbs.record.seal import is_as_it_was
from afbs.record.writer import RecordError, replace_file
from afbs.types import ClientId, Memory, Vector
from afbs.version import VERSION

_KEEP = 2
_FACTS = ("version", "offset", "seal", "unfit", "run", "wall", "counts", "schema", "afbs")


@dataclass(frozen=True)
class Checkpoint:
    """A run just after `version` was made. `counts` are its counters, `unfit` the updates that its step did without.

    `offset` is where its record stood, `seal` the digest of the record up to there, `run` the identity of the run that
    it belongs to, and `wall` how many seconds it had taken.
    """

    version: int
    params: Vector
    memory: Memory
    states: Mapping[ClientId, Vector]
    versions: Mapping[int, Vector]
    counts: Mapping[str, Any]
    offset: int = 0
    seal: str = ""
    unfit: Mapping[str, Sequence[int]] = field(default_factory=dict)
    run: str = ""
    wall: float = 0.0
    schema: int = SCHEMA
    afbs: str = VERSION

    def tensors(self) -> dict[str, Vector]:
        """All that is large in it, as its file names it."""
        named = {"params": self.params}
        named |= {f"memory/{name}": vector for name, vector in self.memory.items()}
        named |= {f"state/{client}": vector for client, vector in self.states.items()}
        return named | {f"version/{version}": vector for version, vector in self.versions.items()}

    @property
    def nbytes(self) -> int:
        return sum(vector.nbytes for vector in self.tensors().values())


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    tensors = checkpoint.tensors()
    facts = {name: getattr(checkpoint, name) for name in _FACTS}
    text = json.dumps(facts)
    path = folder / "checkpoints" / f"{checkpoint.version:08d}.safetensors"
    try:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, save(tensors, {"afbs": text, "sha256": _digest(text, tensors)}))
    except OSError as error:
        raise RecordError(folder, error) from error
    for old in sorted(path.parent.glob("*.safetensors"))[:-_KEEP]:
        with suppress(OSError):  # whoever put a folder there may keep it
            old.unlink()
    return path


def load_checkpoint(folder: Path, run: str) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, of this run, and fits its record; and what was wrong with newer ones."""
    complaints: list[str] = []
    events = folder / "events.jsonl"
    for path in sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True):
        try:
            checkpoint = _load(path)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            complaints.append(f"{path.name} is damaged ({error}); it is passed over.")
            continue
        if checkpoint.run != run:
            complaints.append(f"{path.name} belongs to another run; it is passed over.")
        elif not events.is_file() or events.stat().st_size < checkpoint.offset:
            complaints.append(f"events.jsonl has lost what was before {path.name}; it is passed over.")
        elif not is_as_it_was(events, checkpoint.offset, checkpoint.seal):
            complaints.append(f"events.jsonl is not what it was when {path.name} was written; it is passed over.")
        else:
            return checkpoint, complaints
    return None, complaints


def _load(path: Path) -> Checkpoint:
    if not path.is_file():
        raise ValueError("it is not a file")
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if _digest(metadata["afbs"], tensors) != metadata["sha256"]:
        raise ValueError("its contents do not fit its digest")
    facts = json.loads(metadata["afbs"])
    return Checkpoint(
        params=tensors["params"],
        memory=_below("memory/", tensors),
        states={int(client): vector for client, vector in _below("state/", tensors).items()},
        versions={int(version): vector for version, vector in _below("version/", tensors).items()},
        **facts,
    )


def _below(prefix: str, tensors: Mapping[str, Vector]) -> dict[str, Vector]:
    return {name.removeprefix(prefix): vector for name, vector in tensors.items() if name.startswith(prefix)}


def _digest(text: str, tensors: Mapping[str, Vector]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()
