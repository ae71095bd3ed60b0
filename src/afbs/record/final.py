"""The final model of a run, as its folder has it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afbs.record.files import content
from afbs.types import UserError, Vector


def sha256(params: Vector) -> str:
    return hashlib.sha256(params.tobytes()).hexdigest()


def final_model(folder: Path, result: Mapping[str, Any] | None) -> Vector:
    """One flat vector, and the very one that the run ended with, if `result.json` says which that was."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path, again = folder / "model.safetensors", f"afbs resume {shlex.quote(str(folder))}"
    try:
        params: Vector = load(content(path))["params"]
    except FileNotFoundError:
        if result is None:
            raise UserError(f"{folder} has no final model: the run has not ended. Try: {again}") from None
        what = "is gone, though the run has ended. To have it computed again, remove `result.json`, then"
        raise UserError(f"`{path}` {what}: {again}") from None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"`{path}` is damaged: it is no model that afbs wrote ({error}).") from None
    if result is not None and result.get("sha256") not in (None, sha256(params)):
        raise UserError(f"`{path}` is not the model that the run ended with: its digest in `result.json` is another.")
    return params
