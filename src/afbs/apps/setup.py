"""A configuration as both apps see it: the file in the app, changed by what `flwr run` was told."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import UserConfig

from afbs.config import Config, load
from afbs.files import parsed
from afbs.types import UserError

Source = str | Path | Mapping[str, Any]


def configuration(source: Source, run_config: UserConfig, overrides: Mapping[str, Any]) -> Config:
    """`flwr run . --run-config 'set="algorithm.name=fedbuff training.lr=0.1"'` changes settings as `--set` does."""
    told = run_config.get("set", "")
    if not isinstance(told, str):
        raise UserError(f"The run's `set` must be text such as 'training.lr=0.1', got {told!r}.")
    return load(source, {**overrides, **parsed(shlex.split(told))})
