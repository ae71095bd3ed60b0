"""Whatever has become of a run folder, everything that reads it ends in a success or a sentence."""

from __future__ import annotations

import asyncio
import io
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import httpx
import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save

import afbs
from afbs.cli import runs
from afbs.record import reader
from afbs.report import trackers, write
from afbs.report.figures import figures
from afbs.report.follow import Cursor, Follower
from afbs.report.live import Runs, application
from afbs.report.payload import plain, script_json
from afbs.types import UserError
from damage import cases, damage
from synthetic import write_run

QUICK, LONG = 330, 10_000
_PATIENCE = 120
"""Seconds after which a case is taken for one that would wait for ever."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two small runs of different algorithms."""
    root = tmp_path_factory.mktemp("whole")
    small: dict[str, Any] = {"clients": 20, "in_flight": 10, "horizon": 15_000.0, "evaluations": 4}
    made = write_run(root / "mine", "afbs", **small), write_run(root / "other", "fedbuff", seed=2, **small)
    for folder in made:
        (folder / "model.safetensors").write_bytes(save({"params": np.arange(5, dtype=np.float32)}))
    return made


class Nowhere:
    """A tracker that believes everything."""

    def __init__(self, folder: Path, name: str, destination: str | None):
        self.name = name

    def settings(self, settings: Any) -> None:
        assert all(isinstance(value, str) for value in settings.values())

    def scalars(self, numbers: Any, step: int) -> None:
        assert all(isinstance(value, float) for value in numbers.values())

    def close(self, summary: Any) -> None:
        assert all(isinstance(value, float) for value in summary.values())


def show(folder: Path, out: Path) -> None:
    runs.show(folder)


def load(folder: Path, out: Path) -> None:
    result = afbs.load(folder)
    assert len(result.history) == len(result.record.evals.time)
    result.summary()
    with suppress(UserError):
        assert result.params.ndim >= 0


def report(folder: Path, out: Path) -> None:
    text = write([folder], out / "report.html").read_text()
    assert "The verdict" in text


def export(folder: Path, out: Path) -> None:
    trackers.export(folder, "nowhere")


def listing(folder: Path, out: Path) -> None:
    """The other runs are listed whatever has become of this one."""
    lines = {line["id"]: line for line in Runs(folder.parent).listing()}
    assert lines["other"]["state"] == "ended"
    script_json(list(lines.values()))
    if folder.name in lines and lines[folder.name]["state"] == "unreadable":
        assert lines[folder.name]["remark"].endswith((".", "…"))


def follow(folder: Path, out: Path) -> None:
    follower = Follower(folder)
    while follower.poll():
        pass
    script_json(follower.since(Cursor())[0])


def small_files(folder: Path, out: Path) -> None:
    for read in (reader.read_meta, reader.read_config, reader.read_result, reader.is_done):
        with suppress(UserError):
            read(folder)
    for offset, line in reader.lines(folder, until=20_000):
        assert offset < 20_000
        assert isinstance(line["event"], str)


READERS: tuple[Callable[[Path, Path], None], ...] = (show, load, export, listing, follow, small_files)


def draw(folder: Path, out: Path) -> None:
    figures([folder, folder.parent / "other"], out / "figures", "svg")


def compare(folder: Path, out: Path) -> None:
    """A run that is only found does not take the comparison down."""
    assert "other" in write([folder.parent], out / "report.html").read_text()


Shares: TypeAlias = tuple[tuple[Callable[[Path, Path], None], float], ...]
SLOW: Shares = ((report, 0.1), (compare, 0.05), (draw, 0.005))


@contextmanager
def patience(case: str) -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"{case}: would have waited for ever")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survive(
    whole: tuple[Path, Path], root: Path, numbers: Iterator[random.Random], slow: Shares = SLOW
) -> tuple[int, int]:
    """How many readings succeeded, and how many ended in a sentence. `slow` are tried on a share of the cases."""
    good = said = 0
    for i, rng in enumerate(numbers):
        folder, other = root / "runs" / "mine", root / "runs" / "other"
        shutil.rmtree(root / "runs", ignore_errors=True)
        for source, target in zip(whole, (folder, other), strict=True):
            shutil.copytree(source, target)
        case = f"case {i} ({damage(folder, other, rng)})"
        for read in (*READERS, *(read for read, share in slow if rng.random() < share)):
            try:
                with patience(case):
                    read(folder, root / "out")
                good += 1
            except UserError as error:
                said += 1
                text = str(error)
                assert text[0] in "`/" or text[0].isupper(), f"{case}, {read.__name__}: {text}"
                assert "\n" not in text.strip() or "TOML" in text, f"{case}, {read.__name__}: {text}"
            except Exception as error:
                raise AssertionError(f"{case}, {read.__name__}: {error!r}") from error
    return good, said


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(trackers.TRACKERS, "nowhere", Nowhere)
    monkeypatch.setattr(runs, "console", Console(emoji=False, file=io.StringIO()))
    (tmp_path / "out").mkdir()
    return tmp_path


def test_every_damaged_folder_ends_in_a_success_or_a_sentence(whole: tuple[Path, Path], quiet: Path) -> None:
    good, said = survive(whole, quiet, cases(QUICK))
    assert good > QUICK, "most damage leaves something to be read"
    assert said > QUICK / 10, "some damage must be told"


def test_figures_of_damaged_folders_are_drawn_or_refused_in_words(whole: tuple[Path, Path], quiet: Path) -> None:
    good, _ = survive(whole, quiet, cases(8, seed=2), ((draw, 1.0),))
    assert good > 8


@pytest.mark.long
def test_ten_thousand_damaged_folders_end_in_a_success_or_a_sentence(whole: tuple[Path, Path], quiet: Path) -> None:
    good, said = survive(whole, quiet, cases(LONG, seed=1))
    assert good > LONG
    assert said > LONG / 10


def test_a_whole_run_is_read_by_everything(whole: tuple[Path, Path], quiet: Path) -> None:
    """Otherwise the test above could be content with sentences alone."""
    for source in whole:
        shutil.copytree(source, quiet / "runs" / source.name)
    for read in (*READERS, report, compare, draw):
        read(quiet / "runs" / "mine", quiet / "out")


@pytest.mark.parametrize("seed", range(3))
def test_the_live_page_serves_whatever_the_runs_have_become(whole: tuple[Path, Path], quiet: Path, seed: int) -> None:
    """Twenty damaged runs at once beside a whole one."""
    root = quiet / "runs"
    shutil.copytree(whole[1], root / "other")
    for i, rng in enumerate(cases(20, seed=100 + seed)):
        shutil.copytree(whole[0], root / f"run{i:02}")
        damage(root / f"run{i:02}", root / "other", rng)

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application(root), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [await client.get(path) for path in ("/api/runs", "/", "/api/stream?run=nothing")]

    listed, page, nothing = asyncio.run(ask())
    assert (listed.status_code, page.status_code, nothing.status_code) == (200, 200, 404)
    states = {run["id"]: run["state"] for run in listed.json()["runs"]}
    assert states["other"] == "ended"


def test_plain_numbers_stay_plain() -> None:
    """What the fuzz relies on: nothing that is not finite reaches a page."""
    with warnings.catch_warnings():
        assert plain([float("nan"), float("inf"), 2.0, np.array([np.nan])]) == [None, None, 2, [None]]
