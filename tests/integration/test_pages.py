"""What stands in the README and on the pages works as it stands there.

Python is run a page at a time, top to bottom, in an empty folder that has the examples; runs are made short. Shell
commands are looked up here, and run as they are in the long suite.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import afbs
import pages
from afbs.config import load
from afbs.sweeps.settings import described
from afbs.sweeps.sweeping import planned
from pages import ROOT, Block
from tiny import command

SLOW = ("sweeps",)
PYTHON = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.long] if page.stem in SLOW else [])
    for page in pages.PAGES
    if pages.python_of(page)
]
LANGUAGES = {"", "python", "toml", "sh", "console"}


@pytest.fixture
def place(quick: list[afbs.Result], tmp_path: Path) -> Path:
    """What the pages take for granted in a reader's folder."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "examples/flower-mnist/flower_mnist/afbs.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PYTHON)
def test_python_on_the_pages_runs(page: Path, place: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in pages.python_of(page):
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("block", pages.blocks("toml"), ids=lambda block: block.id)
def test_configurations_on_the_pages_are_valid(block: Block, tmp_path: Path) -> None:
    if "sweep" in tomllib.loads(block.code):
        assert planned(described(tomllib.loads(block.code))).cells
    else:
        path = tmp_path / "page.toml"
        path.write_text(block.code)
        load(path)


@pytest.mark.parametrize("block", pages.blocks("sh"), ids=lambda block: block.id)
def test_commands_on_the_pages_exist(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in pages.commands(block.code):
        words = line.split()
        if words[0] == "afbs":
            below = words[2:3] if words[1] in ("data", "fleet") else []
            said = ""
            if words[1] != "node":
                assert command(monkeypatch, words[1], *below, "--help") == 0 or words[1].startswith("--")
                said = capsys.readouterr().out
            for option in (word for word in words[2:] if word.startswith("--")):
                assert option in said, line
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        for word in words:
            if word.startswith("examples/") and "*" not in word:
                assert (ROOT / word).exists()


def test_every_block_says_what_it_is() -> None:
    """A block without a language is no code: output, or a drawing of a folder."""
    for page in pages.PAGES:
        for block in pages.of(page):
            assert block.language in LANGUAGES, (page, block.language)
            if not block.language:
                assert not re.match(r"(afbs|make|pip|import|from) ", block.code), (page, block.code)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_no_command_hides_in_an_indented_block(page: Path) -> None:
    """Only fenced blocks are found, and run."""
    outside = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not re.search(r"^    (afbs|make|pip|export) ", outside, re.M)


@pytest.mark.parametrize("page", [path for path in pages.PAGES if "docs" not in path.parts], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Of pages that are not in the site, which looks after its own."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
