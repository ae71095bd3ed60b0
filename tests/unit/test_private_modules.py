"""A module whose name begins with `_` belongs to its folder."""

from __future__ import annotations

import ast
from pathlib import Path

import afbs

ROOT = Path(afbs.__file__).parent


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name for name in found if name.startswith("afbs.")}


def trespasses() -> list[tuple[str, str]]:
    """(who, what) for every import of a private module from outside its folder."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        folder = ".".join(("afbs", *path.relative_to(ROOT).parts[:-1]))
        module = f"{folder}.{path.stem}"
        for name in imports(path):
            parts = name.split(".")
            private = [place for place, part in enumerate(parts) if part.startswith("_")]
            if private and not f"{folder}.".startswith(".".join(parts[: private[0]]) + "."):
                found.append((module, name))
    return found


def test_the_search_sees_the_imports_there_are() -> None:
    assert "afbs.privacy._sketched" in imports(ROOT / "privacy" / "dp.py")
    assert "afbs.audit.files" in imports(ROOT / "cli" / "audit.py")


def test_nobody_imports_what_is_private_to_another_folder() -> None:
    assert trespasses() == []


def test_nothing_below_the_command_line_knows_the_audit() -> None:
    outside = [
        path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("audit", "cli", "testing")
    ]
    assert not [path for path in outside if any(name.startswith("afbs.audit") for name in imports(path))]


def test_the_audit_and_the_command_know_no_mechanism_by_name() -> None:
    mechanisms = {"dp", "none", "plain_for_research", "projection", "secure"}
    for path in [*(ROOT / "audit").glob("*.py"), ROOT / "cli" / "audit.py"]:
        assert not imports(path) & {f"afbs.privacy.{name}" for name in mechanisms}
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not texts & mechanisms, path
