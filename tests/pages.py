"""Code as it stands on the pages: found, and run as a reader would run it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)


class Block(NamedTuple):
    page: Path
    language: str
    code: str

    @property
    def id(self) -> str:
        return str(self.page.relative_to(ROOT).with_suffix(""))


def blocks(language: str) -> list[Block]:
    """Every fenced block of a language, in the order of the pages."""
    return [block for page in PAGES for block in of(page) if block.language == language]


def of(page: Path) -> list[Block]:
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page, language, textwrap.dedent(code)) for _, language, code in found]


def python_of(page: Path) -> list[str]:
    return [block.code for block in of(page) if block.language == "python"]


def commands(code: str) -> list[str]:
    """The commands of a shell block: comments are gone, lines that go on are one."""
    joined = re.sub(r"\\\n\s*", " ", code)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]
