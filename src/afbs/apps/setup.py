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

ConfigSource = str | Path | Mapping[str, Any]


def configuration(source: ConfigSource, run_config: UserConfig, overrides: Mapping[str, Any]) -> Config:
    """`flwr run . --run-config 'set="algorithm.name=fedbuff training.lr=0.1"'` changes settings as `--set` does."""
    return load(source, {**overrides, **_told(run_config)})


def on_node(source: ConfigSource, run_config: UserConfig, overrides: Mapping[str, Any]) -> Config:
    """The same for a node. Who computes is the server's affair, and importing its executor may mean importing torch."""
    kept = {path: value for path, value in _told(run_config).items() if path.partition(".")[0] != "executor"}
    return load(source, {**overrides, **kept, "executor": {"name": "processes"}})


def _told(run_config: UserConfig) -> dict[str, Any]:
    told = run_config.get("set", "")
    if not isinstance(told, str):
        raise UserError(f"The run's `set` must be text such as 'training.lr=0.1', got {told!r}.")
    return parsed(shlex.split(told))
