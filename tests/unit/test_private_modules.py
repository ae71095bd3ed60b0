"""A name that begins with an underscore is private to its folder: no other package imports it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "afbs"
KNOWN = {
    ("afbs.cli", "afbs.privacy._audit"),
    ("afbs.cli", "afbs.privacy._audit_files"),
    ("afbs.cli", "afbs.privacy._audit_words"),
}
"""Still to be mended; nothing may be added."""


def imported(path: Path) -> set[str]:
    """Every module that a file imports, in full; `from a import b` may be the module a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_package_imports_what_is_private_to_another(path: Path) -> None:
    home = ".".join(["afbs", *path.relative_to(SOURCE).parts[:-1]])
    for module in imported(path):
        parts = module.split(".")
        private = [place for place, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
        if parts[0] != "afbs" or not private:
            continue
        owner, hidden = ".".join(parts[: private[0]]), ".".join(parts[: private[0] + 1])
        assert home == owner or home.startswith(f"{owner}.") or (home, hidden) in KNOWN, f"{home} imports {hidden}"
