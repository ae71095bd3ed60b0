"""A page of all examples as they lie in the repository, and the texts that lie beside the pages."""

from __future__ import annotations

from pathlib import Path

from making.links import anchor

_LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown"}
_FOUND_LAST = "---\nsearch:\n  boost: 0.1\n---\n\n"
_HEAD = """# Examples

Every file of `examples/`, as it is. `afbs quickstart` runs the first one; the others are named on the pages that use
them. All of them are run by the tests.

"""


def pages(root: Path) -> dict[str, str]:
    made = {
        "reference/examples.md": _examples(root),
        "reference/changes.md": (root / "CHANGELOG.md").read_text(encoding="utf-8"),
        "reference/contributing.md": (root / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "reference/peers.md": (root / "benchmarks/peers/README.md").read_text(encoding="utf-8"),
    }
    return {path: _FOUND_LAST + text for path, text in made.items()}


def _examples(root: Path) -> str:
    files = [path for path in (root / "examples").rglob("*") if path.suffix in _LANGUAGES]
    text, before = _HEAD, ""
    for path in sorted(files, key=lambda path: (len(path.relative_to(root).parts) > 2, _place(path), str(path))):
        name = path.relative_to(root).as_posix()
        folder = "/".join(name.split("/")[:2]) if name.count("/") > 1 else ""
        if folder != before:
            text += f"## `{folder}/` {{ #{anchor(folder)} }}\n\n"
            before = folder
        text += f"{'###' if folder else '##'} `{name.removeprefix('examples/')}` {{ #{anchor(name)} }}\n\n"
        text += f"````{_LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n\n"
    return text


def _place(path: Path) -> bool:
    return path.name != "quickstart.toml"
