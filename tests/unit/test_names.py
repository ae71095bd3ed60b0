"""One word, one thing: no two public classes or types of the package have the same name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import afbs

PACKAGE = Path(afbs.__file__).parent
ALLOWED = {
    "State": "algorithms/",  # each algorithm's own, which nothing else names
    "Rule": "core/",
    "Outcome": "testing/federation.py",
    "Counts": "testing/_label_halves.py",
    "Ask": "testing/_label_halves.py",
}
"""A name, and where it may stand for something else as well."""


def named(source: str) -> Iterator[tuple[str, str | None]]:
    """The public classes of a module, and its aliases with what they stand for. Constants, in capitals, are neither."""
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name):
                meaning = None
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                meaning = ast.unparse(value)
            case _:
                continue
        if re.match(r"[A-Z]\w*[a-z]", name):
            yield name, meaning


def clashes(modules: dict[str, str]) -> dict[str, list[str]]:
    """The names with several meanings, and their modules. An alias that is spelled alike in two places is one thing."""
    meanings: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path, source in modules.items():
        for name, meaning in named(source):
            if not path.startswith(ALLOWED.get(name, " ")):
                meanings[name].setdefault(meaning or path, path)
    return {name: sorted(found.values()) for name, found in meanings.items() if len(found) > 1}


def sources() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def test_a_name_stands_for_one_thing() -> None:
    assert clashes(sources()) == {}


def test_what_is_allowed_is_still_needed() -> None:
    found = {(name, path) for path, source in sources().items() for name, _ in named(source)}
    for name, place in ALLOWED.items():
        assert sum(path.startswith(place) for other, path in found if other == name) > 0
        assert sum(other == name for other, _ in found) > 1


def test_a_clash_is_found_among_classes_and_aliases() -> None:
    modules = {
        "a.py": "class Line: ...\nclass _Own: ...\nArray = list[int]\nMOST = 3\n",
        "b.py": "Line: TypeAlias = dict[str, int]\nclass _Own: ...\nArray = list[int]\nMOST = 4\n",
        "c.py": "Array = list[float]\nclass Lone: ...\nclass State: ...\n",
        "algorithms/d.py": "class State: ...\n",
    }
    assert clashes(modules) == {"Line": ["a.py", "b.py"], "Array": ["a.py", "c.py"]}
