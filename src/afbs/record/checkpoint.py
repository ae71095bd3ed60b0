"""Checkpoints: everything that cannot be had from the seed. They are safetensors files; nothing is unpickled.

A checkpoint holds the model, the algorithm's memory, the clients' states and every earlier version that a job under
way started from, with a digest over all of it. The two newest are kept: if the last one is damaged, the one before
serves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from afbs.record.writer import RecordError, replace_file
from afbs.types import ClientId, Memory, Vector

_KEEP = 2


@dataclass(frozen=True)
class Checkpoint:
    """A run just after `version` was made. `counts` are its counters.

    `offset` is where its record stood, and `wall` how many seconds it had taken.
    """

    version: int
    params: Vector
    memory: Memory
    states: Mapping[ClientId, Vector]
    versions: Mapping[int, Vector]
    counts: Mapping[str, Any]
    offset: int = 0
    wall: float = 0.0


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    tensors = {"params": checkpoint.params}
    tensors |= {f"memory/{name}": vector for name, vector in checkpoint.memory.items()}
    tensors |= {f"state/{client}": vector for client, vector in checkpoint.states.items()}
    tensors |= {f"version/{version}": vector for version, vector in checkpoint.versions.items()}
    facts = {name: getattr(checkpoint, name) for name in ("version", "offset", "wall", "counts")}
    text = json.dumps(facts)
    path = folder / "checkpoints" / f"{checkpoint.version:08d}.safetensors"
    try:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, save(tensors, {"afbs": text, "sha256": _digest(text, tensors)}))
    except OSError as error:
        raise RecordError(folder, error) from error
    for old in sorted(path.parent.glob("*.safetensors"))[:-_KEEP]:
        old.unlink()
    return path


def load_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what was wrong with newer ones."""
    complaints: list[str] = []
    events = folder / "events.jsonl"
    written = events.stat().st_size if events.exists() else 0
    for path in sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True):
        try:
            checkpoint = _load(path)
            if checkpoint.offset <= written:
                return checkpoint, complaints
            complaints.append(f"events.jsonl has lost what was before {path.name}; it is passed over.")
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            complaints.append(f"{path.name} is damaged ({error}); it is passed over.")
    return None, complaints


def _load(path: Path) -> Checkpoint:
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
