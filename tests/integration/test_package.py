"""The package as somebody without the repository gets it: twice the same bytes, whole, and enough by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
NEEDED = (
    "afbs/py.typed",
    "afbs/cli/quickstart.toml",
    "afbs/report/static/report.js",
    "afbs/report/static/live.html",
    "afbs/apps/template/afbs.toml.tmpl",
)
SHORT = ("run.virtual_days=0.1", "evaluation.points=2")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows, as it is now."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(source: Path, out: Path) -> Path:
    """An sdist, and a wheel made from that, as `make package` does."""
    command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(out), str(source)]
    subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, check=True)
    return out


@pytest.fixture(scope="module")
def dist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("dist"))


def wheel_of(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def test_built_again_elsewhere_it_has_the_same_bytes(source: Path, dist: Path, tmp_path: Path) -> None:
    elsewhere = shutil.copytree(source, tmp_path / "somewhere" / "else")
    again = build(elsewhere, tmp_path / "dist")
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in dist.iterdir())
    for path in dist.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_the_wheel_holds_every_module_and_nothing_else_of_the_repository(dist: Path) -> None:
    names = set(zipfile.ZipFile(wheel_of(dist)).namelist())
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert modules <= names
    assert set(NEEDED) <= names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert all(name.startswith(("afbs/", "afbs-")) for name in names)


def test_the_sdist_holds_what_the_wheel_is_made_of_and_no_tests(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "native/kernels.c"} <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs", "examples", "results", "."))]
    assert not [name for name in names if name.endswith(".so")]


def test_it_declares_its_licence_its_types_and_the_pythons_it_was_tried_with(dist: Path) -> None:
    archive = zipfile.ZipFile(wheel_of(dist))
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    told = archive.read(name).decode()
    assert "License-Expression: Apache-2.0" in told
    assert "Classifier: Typing :: Typed" in told
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for classifier in project["classifiers"]:
        assert f"Classifier: {classifier}" in told


def test_in_an_empty_environment_the_quickstart_runs(dist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    here = tmp_path / "env" / "bin"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    install = ["install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), "torch", str(wheel_of(dist))]
    subprocess.run([here / "pip", *install], env=clean, check=True)
    place = tmp_path / "nowhere"
    place.mkdir()
    settings = [word for setting in SHORT for word in ("--set", setting)]
    said = subprocess.run(
        [here / "afbs", "quickstart", *settings], cwd=place, env=clean, capture_output=True, text=True, check=True
    ).stdout
    assert "Open report.html" in said
    assert "FedBuff" in (place / "report.html").read_text()
    where = subprocess.run(
        [here / "python", "-c", "import afbs; print(afbs.__file__)"],
        cwd=place,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.startswith(str(tmp_path))
