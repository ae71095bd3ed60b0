"""Publication figures and tables are written, in every format, from whatever the runs tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from afbs.report.figures import figures
from afbs.types import UserError
from synthetic import write_run, write_small

ALL = {
    "accuracy-time",
    "accuracy-steps",
    "accuracy-updates",
    "accuracy-wall",
    "loss-time",
    "staleness",
    "buffer",
    "scale",
    "weights",
    "participation",
    "classes",
    "confusion",
    "clusters",
    "cost",
}
TABLES = {"table.md", "table.csv", "table.tex"}


def test_every_figure_and_table_is_written_and_reads_in_grey(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / "runs" / f"a{seed}", "afbs", seed=seed, horizon=60_000)
    write_run(tmp_path / "runs" / "b", "fedbuff", horizon=60_000)
    written = figures([tmp_path / "runs"], tmp_path / "out", "png")
    assert {path.name for path in written} == {f"{name}.png" for name in ALL} | TABLES
    for name in ALL:
        grey = np.asarray(Image.open(tmp_path / "out" / f"{name}.png").convert("L"))
        assert (grey < 128).mean() > 0.002, name


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    write_small(tmp_path / "run", [0.1, 0.5])
    first = {path.name: path.read_bytes() for path in figures([tmp_path / "run"], tmp_path / "one", "pdf")}
    second = {path.name: path.read_bytes() for path in figures([tmp_path / "run"], tmp_path / "two", "pdf")}
    assert first == second
    assert first["accuracy-time.pdf"].startswith(b"%PDF")


def test_what_a_run_does_not_tell_is_left_out(tmp_path: Path) -> None:
    """No step was taken and no class was counted: only the curves, the confusion and the counts are left."""
    write_small(tmp_path / "run", [0.1, 0.5])
    names = {path.stem for path in figures([tmp_path / "run"], tmp_path / "out", "svg")}
    assert {"accuracy-time", "loss-time", "confusion", "cost", "table"} <= names
    assert (tmp_path / "out" / "confusion.svg").read_bytes().startswith(b"<?xml")
    assert not names & {"buffer", "scale", "weights", "participation", "classes", "clusters"}


def test_a_name_with_a_formula_in_it_is_only_a_name(tmp_path: Path) -> None:
    write_small(tmp_path / "runs" / "a", [0.1], algorithm=r"$\frac{$ & <b>")
    write_small(tmp_path / "runs" / "b", [0.1], algorithm="fedbuff")
    assert figures([tmp_path / "runs"], tmp_path / "out", "svg")
    assert "&lt;b&gt;" in (tmp_path / "out" / "cost.svg").read_text()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be one of pdf, png, svg, got 'jpg'"):
        figures([tmp_path], tmp_path, "jpg")


def test_a_figure_about_one_of_several_seeds_says_which(tmp_path: Path) -> None:
    for seed in (3, 4):
        write_run(tmp_path / "runs" / f"a{seed}", "afbs", seed=seed, horizon=60_000)
    figures([tmp_path / "runs"], tmp_path / "out", "svg")
    for name in ("participation", "buffer"):
        assert "AFBS, seed 3" in (tmp_path / "out" / f"{name}.svg").read_text(), name


def test_a_band_of_accuracies_stays_between_nothing_and_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracies of 0 and 1 have a mean of 50 % and a deviation of 71 points."""
    bands: list[tuple[float, float]] = []

    def fill(self: Axes, x: object, low: np.ndarray, high: np.ndarray, **more: object) -> None:
        bands.append((float(low.min()), float(high.max())))

    monkeypatch.setattr(Axes, "fill_between", fill)
    for seed, accuracy in enumerate((0.0, 1.0)):
        write_small(tmp_path / "runs" / str(seed), [accuracy] * 3, seed=seed)
    figures([tmp_path / "runs"], tmp_path / "out", "svg")
    assert bands[0] == (0.0, 100.0)
