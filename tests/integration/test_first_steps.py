"""What somebody who has only the package does first: which version, does it work here, a first comparison."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import afbs
from afbs.cli import doctor, quickstart
from tiny import command

ROOT = Path(__file__).parents[2]
SHORT = ["run.virtual_days=0.05", "evaluation.points=1", "training.epochs=1"]


def test_the_version_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"afbs {afbs.__version__}\n"


def test_a_shell_can_complete_commands() -> None:
    asked = {"_AFBS_COMPLETE": "complete_bash", "COMP_WORDS": "afbs res", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'afbs'; from afbs.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == ["resume"]


def test_the_quickstart_of_the_package_is_the_example() -> None:
    assert quickstart.FILE.read_bytes() == (ROOT / "examples/quickstart.toml").read_bytes()


def test_the_quickstart_compares_three_algorithms_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "quickstart", *(word for setting in SHORT for word in ("--set", setting))) == 0
    said = capsys.readouterr().out
    for name in ("afbs", "fedbuff", "fedavg"):
        assert re.search(rf"^ {name} +\d", said, re.MULTILINE)
    assert "Open report.html" in said
    assert "FedBuff" in (tmp_path / "report.html").read_text()


def test_the_quickstart_can_be_written_down_but_never_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    assert command(monkeypatch, "quickstart", "--write", path) == 0
    assert afbs.configure(path).tables["partition"]["clients"] == 100
    path.write_text("mine")
    assert command(monkeypatch, "quickstart", "--write", path) == 2
    assert path.read_text() == "mine"
    assert command(monkeypatch, "quickstart", "--write", tmp_path / "no" / "folder.toml") == 2
    assert not (tmp_path / "runs").exists()


def test_the_doctor_says_what_is_here_and_what_is_missing_for_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("AFBS_DATA", str(tmp_path))
    asked = ["numpy>=1", 'rich>=13; extra == "live"', 'no-such-package; extra == "ray"', 'another; extra == "dev"']
    monkeypatch.setattr(metadata, "requires", lambda package: asked)
    assert command(monkeypatch, "doctor", "--no-speed") == 0
    said = capsys.readouterr().out
    assert re.search(r"live +here ", said)
    assert re.search(r"ray +missing ", said)
    assert "pip install 'afbs[ray]'" in said
    assert "dev" not in said
    assert str(tmp_path) in "".join(said.split())
    assert re.search(r"ready +.*digits", said)
    assert "samples/s" not in said


def test_the_doctor_knows_a_reason_for_every_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert set(re.findall(r"^(\w+) = \[", text, re.M)) == {*doctor.FEATURES, "dev", "docs", "dp"}


def test_the_doctor_trains_for_a_moment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.01)
    assert command(monkeypatch, "doctor") == 0
    said = re.search(r"speed +([\d,]+) samples/s", capsys.readouterr().out)
    assert said
    assert int(said[1].replace(",", "")) > 0


def test_a_citation_names_this_version() -> None:
    assert f"\nversion: {afbs.__version__}\n" in (ROOT / "CITATION.cff").read_text()
