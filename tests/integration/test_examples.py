"""Every example works as it stands there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import afbs
from tiny import command

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(set(ROOT.glob("examples/*.py")) - {ROOT / "examples" / "own_fleet.py"})  # that one is served


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_example_script_runs(script: Path, quick: list[afbs.Result], capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert quick
    for result in quick:
        assert result.metric.sign * result.best > result.metric.sign * result.record.watched[0]


def test_an_algorithm_named_in_a_configuration_is_found_beside_it_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shorter = ["--set", "executor.name=inline", "--set", "run.virtual_days=0.1", "--set", "algorithm.half_life=1.0"]
    assert command(monkeypatch, "run", ROOT / "examples" / "own_algorithm.toml", "--folder", "run", *shorter) == 0
    assert afbs.load("run").record.config["algorithm"]["half_life"] == 1.0
