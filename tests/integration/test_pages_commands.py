"""The shell commands on the pages, run as they stand there, in a folder as the pages take it for granted.

What takes moments is run here, in this process; whole pages are run by a shell in the long suite. What neither can do
is listed by name, with where it is done instead.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import afbs
import pages
from pages import ROOT
from tiny import command, settings, toml

MOMENTS = (
    "list",
    "report",
    "figures",
    "export",
    "verify",
    "show",
    "new",
    "audit my.toml",
    "data clean",
    "reproduce list",
)
NEEDS_RUNS = ("docs/report", "docs/deploy", "examples/flower-mnist/README")
ELSEWHERE = {
    "make test": "it is what runs this",
    "make test-long": "it is what runs this",
    "make coverage": "it is `make test`, counted",
    "make docs": "test_site.py builds it",
    "make package": "test_package.py builds it",
    "make run": "`afbs quickstart`, which is run on other pages",
    "pip install afbs": "test_package.py installs the wheel into an empty environment",
    "pip install afbs && afbs quickstart": "the same, and `afbs quickstart` is run on other pages",
    'pip install "afbs[flower]"': "the environment of the tests has it",
    "pip install 'afbs[ray]'": "the environment of the tests has it",
    "afbs data get mnist": "test_data_hub.py, with a hub of its own",
    "afbs data import cifar10 cifar-10-binary.tar.gz": "test_data_manage.py, with files of its own",
    "afbs data clean memory-71d56b8ca371": "test_data_manage.py: an id is different everywhere",
    "afbs live runs/": "test_live_server.py: it serves until it is stopped",
    "afbs export runs/afbs --to mlflow --destination http://localhost:5000": "test_report_trackers.py",
    "afbs export runs/afbs --to wandb --destination my-project --follow": "test_report_trackers.py",
    "ray start --head --port=6379": "test_ray.py starts one that nobody else can reach",
    "ray start --address=HEAD:6379": "needs a second machine",
    "afbs run FILE.toml --set executor.name=ray --set executor.address=auto": "test_ray.py",
    "afbs fleet up --nodes 4": "test_flower_cluster.py, on ports of its own",
    "afbs fleet run my-project": "test_flower_cluster.py",
    "afbs fleet run examples/flower-mnist": "test_flower_cluster.py",
    "afbs fleet down": "test_flower_cluster.py",
    "flower-supernode … --node-config 'client-id=7 home=\"/var/lib/afbs\"'": "test_flower_cluster.py",
    "afbs reproduce table2 --dataset mnist": "test_reproduce.py, with the setting shrunk; this takes hours",
    "afbs reproduce table4 --dataset mnist --clusters 1 --virtual-days 0.5": "the same; this takes minutes",
    "afbs reproduce all": "the same; this takes days",
    "afbs compare examples/ablations/*.toml --seeds 1,2,3 --report ablations.html": "test_ablations.py runs each file",
}
PAGES = {
    page.relative_to(ROOT).with_suffix("").as_posix(): [
        line for block in pages.of(page) if block.language == "sh" for line in pages.commands(block.code)
    ]
    for page in pages.PAGES
}


def is_brief(line: str) -> bool:
    return line not in ELSEWHERE and line.startswith(tuple(f"afbs {name}" for name in MOMENTS))


def globbed(word: str) -> list[str]:
    """As a shell does it."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    for name, algorithm in {"afbs": "afbs", "fedbuff": "fedbuff", "mine": "afbs"}.items():
        afbs.run(settings(algorithm__name=algorithm), folder=folder / name, progress=False)
    absences = {"name": "windows"}  # as in a fleet: then a trace has presences, too
    afbs.run(settings(), folder=folder / "THAT-RUN", availability=absences, progress=False)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, with a cache of its own."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    toml(tmp_path).rename(tmp_path / "my.toml")
    monkeypatch.setenv("AFBS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(is_brief, PAGES[page]))])
def test_what_takes_moments_works_at_once(
    page: str, finished: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished, place / "runs")
    for line in filter(is_brief, PAGES[page]):
        words = [found for word in shlex.split(line)[1:] for found in globbed(word)]
        assert command(monkeypatch, *words) == 0, line


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if set(PAGES[page]) - set(ELSEWHERE)])
def test_a_shell_runs_a_whole_page(page: str, finished: Path, place: Path) -> None:
    if page in NEEDS_RUNS:
        shutil.copytree(finished, place / "runs")
    script = "\n".join(line for line in PAGES[page] if line not in ELSEWHERE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-euxc", script], env={**os.environ, "PATH": path}, check=True)


def test_whatever_is_run_elsewhere_still_stands_on_a_page() -> None:
    assert set(ELSEWHERE) <= {line for lines in PAGES.values() for line in lines}
