"""Every example and every piece of code in the README and the pages works as it stands there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import afbs
from afbs import experiment
from afbs.config import load
from tiny import command

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(ROOT.glob("examples/*.py"))
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{page}.md" for page in ("configuration", "tasks", "why", "design"))]


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(code, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, code in enumerate(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S))
    ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[afbs.Result]:
    """Runs are made shorter, stay in this process, and go to a folder of the test."""
    original, results = experiment.run, []

    def run(source: Any, **named: Any) -> afbs.Result:
        overrides = {key: value for key, value in named.items() if key not in ("folder", "runs")}
        days = min(0.2, load(source, overrides).run.virtual_days)
        results.append(original(source, **{**named, "executor": {"name": "inline"}, "run.virtual_days": days}))
        return results[-1]

    monkeypatch.setattr(experiment, "run", run)
    monkeypatch.chdir(tmp_path)
    return results


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


@pytest.mark.parametrize("code", blocks("python"))
def test_python_on_the_pages_runs(code: str, quick: list[afbs.Result]) -> None:
    exec(compile(code, "page", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("code", blocks("toml"))
def test_configurations_on_the_pages_are_valid(code: str, tmp_path: Path) -> None:
    path = tmp_path / "page.toml"
    path.write_text(code)
    load(path)


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_on_the_pages_exist(
    code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in code.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["afbs"]:
            assert command(monkeypatch, words[1], "--help") == 0
            said = capsys.readouterr().out
            for option in (word for word in words if word.startswith("--")):
                assert option in said
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        for word in words:
            if word.startswith("examples/"):
                assert (ROOT / word).exists()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
