"""A user's module beside the configuration, in a whole run: whatever its name, and in worker processes too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import tomli_w

from afbs import registry
from afbs.config import load
from afbs.record.schema import SCHEMA
from tiny import settings

TEST = """
from torch import nn

WIDTH = 4

class Net(nn.Module):
    def __init__(self, shape, classes, width=WIDTH):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)
"""
CODE = """
from dataclasses import dataclass

from afbs.interfaces import Algorithm, LocalRule
from afbs.types import Step

SERVER = 1.0

class Pull(LocalRule):
    def gradient(self, params, start, state):
        return 0.5 * (params - start)

@dataclass(frozen=True)
class Mine(Algorithm):
    every: int = 2

    @property
    def local(self):
        return Pull()

    def init(self, clients):
        return ()

    def receive(self, state, update, key):
        waiting = (*state, update)
        return ((), Step(waiting)) if len(waiting) == self.every else (waiting, None)

    def apply(self, memory, params, step, vectors):
        return memory, params - SERVER * vectors.mean(axis=0)
"""


def afbs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from afbs.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ}, capture_output=True, text=True, check=False)


def test_modules_with_names_of_the_standard_library_train_in_workers(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "test.py").write_text(TEST)
    (home / "code.py").write_text(CODE)
    tables = settings(executor__name="processes")
    tables["model"] = {"name": "test:Net"}
    tables["algorithm"] = {"name": "code:Mine"}
    (home / "own.toml").write_text(tomli_w.dumps(tables))
    done = afbs(elsewhere, "run", str(home / "own.toml"), "--set", "executor.workers=2", "--folder", "out")
    assert done.returncode == 0, done.stderr
    assert 'name = "test:Net"' in (elsewhere / "out" / "config.toml").read_text()


def test_a_module_that_fails_is_a_sentence_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\n\n1 / 0\n")
    tables = settings()
    for part in ("algorithm", "model"):
        chosen = {**tables, part: {"name": "mine:X"}}
        (tmp_path / "own.toml").write_text(tomli_w.dumps(chosen))
        done = afbs(tmp_path, "run", "own.toml")
        assert done.returncode == 2
        assert f"`{part}.name` is 'mine:X': importing it raised ZeroDivisionError" in done.stderr
        assert f"{tmp_path.resolve()}/mine.py, line 3" in done.stderr
        assert "Traceback" not in done.stderr
        assert "importlib" not in done.stderr


def test_modules_are_found_around_the_package_of_a_file_and_where_a_run_had_them(tmp_path: Path) -> None:
    """As in a Flower app, whose configuration is in its package; and as in the run folder that it leaves."""
    package, run = tmp_path / "place" / "somebodys", tmp_path / "run"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "net.py").write_text(TEST)
    (package / "afbs.toml").write_text('[model]\nname = "somebodys.net:Net"\n')
    config = load(package / "afbs.toml")
    assert registry.find("model", str(config.model.build)).__module__ == "somebodys.net"
    run.mkdir()
    (run / "config.toml").write_text((package / "afbs.toml").read_text())
    (run / "meta.json").write_text(json.dumps({"schema": SCHEMA, "modules": list(config.modules)}))
    assert set(config.modules) <= set(load(run / "config.toml").modules)
    (run / "meta.json").write_text("torn")
    assert str(run) in load(run / "config.toml").modules
