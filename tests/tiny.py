"""A federation that runs in a second, and ways to run it, for tests."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import afbs
from afbs import cli

TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"name": "digits"},
    "model": {"name": "mlp", "hidden": 8},
    "partition": {"clients": 20, "clusters": 2},
    "clusters": {"number": 2},
    "algorithm": {"name": "afbs", "buffer_size": 4},
    "training": {"lr": 0.1, "epochs": 2},
    "latency": {"high": 3000},
    "evaluation": {"points": 4, "spacing": "linear", "target": 0.5},
    "run": {"virtual_days": 0.15, "in_flight": 8},
    "executor": {"name": "inline"},
}


def settings(**changes: Any) -> dict[str, Any]:
    """The tiny federation with single settings changed: `settings(training__lr=1.0)`."""
    tables = deepcopy(TINY)
    for path, value in changes.items():
        table, _, key = path.partition("__")
        tables.setdefault(table, {})[key] = value
    return tables


def run(folder: Path, **overrides: Any) -> afbs.Result:
    return afbs.run(TINY, folder=folder / "run", **overrides)


def toml(folder: Path, **changes: Any) -> Path:
    """The tiny federation as a file."""
    import tomli_w

    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps(settings(**changes)))
    return path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """What `afbs ...` exits with. What it writes is for capsys."""
    monkeypatch.setattr(sys, "argv", ["afbs", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def lines(folder: Path) -> list[dict[str, Any]]:
    """The record without what depends on the clock on the wall and on how often the run was taken up."""
    found = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    kept = [line for line in found if line["event"] not in ("checkpoint", "resume")]
    return [{key: value for key, value in line.items() if key != "wall"} for line in kept]
