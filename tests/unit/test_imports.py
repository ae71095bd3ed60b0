"""`module:Name` finds what is beside the configuration first, and takes no module's name away from anybody."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from afbs import imports, registry
from afbs.config import load
from afbs.types import UserError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(imports, "_beside", [])
    before = set(sys.modules)
    yield tmp_path.resolve()
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if str(tmp_path) in file:
            del sys.modules[name]


def test_a_folder_is_searched_once_and_last_by_python_itself(place: Path) -> None:
    registry.search(place)
    registry.search(place)
    assert sys.path[-1] == str(place)
    assert sys.path.count(str(place)) == 1


@pytest.mark.parametrize("name", ["json", "code", "test", "calendar", "mine_alone"])
def test_a_file_beside_the_configuration_wins_whatever_its_name(place: Path, name: str) -> None:
    (place / f"{name}.py").write_text("class Thing:\n    number = 7\n")
    registry.search(place)
    assert registry.find("model", f"{name}:Thing").number == 7


def test_the_standard_library_stays_what_it_was_for_everybody_else(place: Path) -> None:
    for name in ("code", "antigravity"):
        (place / f"{name}.py").write_text("Thing = 7\n")
    registry.search(place)
    assert registry.find("model", "code:Thing") == registry.find("model", "antigravity:Thing") == 7
    import code

    assert hasattr(code, "interact")
    assert "antigravity" not in sys.modules


def test_a_package_beside_the_configuration_wins_with_its_modules(place: Path) -> None:
    (place / "email").mkdir()
    (place / "email" / "__init__.py").write_text("")
    (place / "email" / "parts.py").write_text("from . import numbers\nThing = numbers.SEVEN\n")
    (place / "email" / "numbers.py").write_text("SEVEN = 7\n")
    registry.search(place)
    assert registry.find("model", "email.parts:Thing") == 7


def test_two_configurations_may_have_modules_of_one_name(place: Path) -> None:
    for folder in ("a", "b"):
        (place / folder).mkdir()
        (place / folder / "twin.py").write_text(f"class Thing:\n    home = {folder!r}\n")
    for folder in ("a", "b", "a", "b"):
        registry.search(place / folder)
        assert registry.find("model", "twin:Thing").home == folder


def test_a_class_from_a_shadowed_file_is_written_by_the_name_it_was_given(place: Path) -> None:
    (place / "code.py").write_text(
        "from dataclasses import dataclass\nfrom afbs.latency.uniform import Latency\n\n"
        "@dataclass(frozen=True)\nclass Slow(Latency):\n    per: str = 'job'\n"
        "    def duration(self, client, start, key):\n        return 9.0\n\n\n"
        "class Net: ...\n"
    )
    (place / "own.toml").write_text("[latency]\nname = 'code:Slow'\n[model]\nname = 'code:Net'\n")
    config = load(place / "own.toml")
    again = load(config, {"run.seed": 2})
    assert config.tables["latency"]["name"] == again.tables["latency"]["name"] == "code:Slow"
    assert config.tables["model"]["name"] == again.tables["model"]["name"] == "code:Net"
    assert again.latency == config.latency


def test_a_class_from_a_shadowed_file_travels_to_a_process_that_cannot_find_it(place: Path) -> None:
    (place / "code.py").write_text("HALF = 21\n\n\nclass Thing:\n    def twice(self):\n        return HALF * 2\n")
    registry.search(place)
    (place / "thing.pickle").write_bytes(cloudpickle.dumps(registry.find("model", "code:Thing")()))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).twice())"
    command = [sys.executable, "-P", "-c", script, str(place / "thing.pickle")]
    found = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True)
    assert found.stdout.strip() == "42"
    assert pickle.loads((place / "thing.pickle").read_bytes()).twice() == 42


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n1 / 0\n", r"raised ZeroDivisionError: division by zero \(.*/broken_part\.py, line 2\)\.\n"),
        ("def f():\n    raise ValueError('no')\nf()\n", r"raised ValueError: no \(.*/broken_part\.py, line 2\)\.\n"),
        ("import os\nos.nothing\n", r"raised AttributeError: .* \(.*/broken_part\.py, line 2\)\.\n"),
        ("def f(:\n", r"raised SyntaxError: .* \(.*/broken_part\.py, line 1\)\.\n"),
        ("import nowhere_at_all\n", r"raised ModuleNotFoundError: .*nowhere_at_all.*broken_part\.py, line 1\)\.\n"),
        ("import sys\nsys.exit(3)\n", r"raised SystemExit: 3 \(.*/broken_part\.py, line 2\)\.\n"),
        ("\n\nimport json\njson.loads('{')\n", r"raised JSONDecodeError: .* \(.*/broken_part\.py, line 4\)\.\n"),
        ("def f():\n    f()\nf()\n", r"raised RecursionError: .* \(.*/broken_part\.py, line 2\)\.\n"),
    ],
)
def test_a_module_that_fails_is_named_with_the_line_of_the_user(place: Path, text: str, said: str) -> None:
    (place / "broken_part.py").write_text(text)
    registry.search(place)
    with pytest.raises(UserError, match=rf"`algorithm\.name` is 'broken_part:X': importing it {said}") as refused:
        registry.find("algorithm", "broken_part:X")
    shown = str(refused.value).splitlines()[1:]
    assert all("broken_part.py" in line for line in shown if line.startswith("  /"))
    assert 1 <= len(shown) <= 10


@pytest.mark.parametrize("name", [":", "a:", ":b", "a..b:C", ".a:B", "a/b:C", "a\0:C", "a:b..c"])
def test_what_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"`model\.name` must be a name or `package\.module:Name`"):
        registry.find("model", name)


def test_a_name_that_a_module_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="module 'json' has no attribute 'Nothing'"):
        registry.find("model", "json:Nothing")


def test_a_copy_of_a_configuration_finds_the_modules_of_the_first(place: Path) -> None:
    for folder in ("home", "elsewhere"):
        (place / folder).mkdir()
    (place / "home" / "calendar.py").write_text("class Net: ...\n")
    (place / "home" / "own.toml").write_text("[model]\nname = 'calendar:Net'\n")
    (place / "elsewhere" / "own.toml").write_text("[model]\nname = 'calendar:Net'\n")
    first = load(place / "home" / "own.toml")
    assert first.modules[0] == str(place / "home")
    copied = load(place / "elsewhere" / "own.toml", modules=first.modules)
    assert copied.model.build is first.model.build
    load(place / "elsewhere" / "own.toml")
    assert load(first, {"model.name": "calendar:Net"}).model.build is first.model.build
