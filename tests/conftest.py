"""Settings and folders that tests share."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import afbs
from afbs import experiment
from afbs.config import load

settings.register_profile("suite", deadline=None, max_examples=100, derandomize=True)
settings.load_profile("suite")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes away from what it runs in the background


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[afbs.Result]:
    """Runs are made shorter, stay in this process, and go to a folder of the test."""
    original, results = experiment.run, []

    def run(source: Any, **named: Any) -> afbs.Result:
        overrides = {key: value for key, value in named.items() if key not in ("folder", "runs", "progress")}
        days = min(0.2, load(source, overrides).run.virtual_days)
        results.append(original(source, **{**named, "executor": {"name": "inline"}, "run.virtual_days": days}))
        return results[-1]

    monkeypatch.setattr(experiment, "run", run)
    monkeypatch.chdir(tmp_path)
    return results
