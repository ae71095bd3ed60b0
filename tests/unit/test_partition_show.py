"""Who has what, drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from afbs.partitions.show import drawing, save_figure


def text(counts: list[np.ndarray]) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with console.file:
        console.print(drawing(counts))
        return console.export_text()


def test_shares_are_shades_and_rows_go_by_class() -> None:
    shown = text([np.array([0, 10]), np.array([100, 0]), np.array([5, 5])])
    assert "3 clients have 120 samples of 2 classes" in shown
    assert "A client has 10 to 100 samples (median 10) of 1 to 2 classes (median 1)" in shown
    rows = [line.split() for line in shown.splitlines() if "█" in line or "▒" in line]
    assert rows[:3] == [["██", "100"], ["▒▒", "▒▒", "10"], ["██", "10"]]


def test_a_trace_of_a_class_is_not_lost() -> None:
    assert "░░" in text([np.array([9999, 1])])


def test_many_clients_and_classes_are_summarised() -> None:
    counts = [np.random.default_rng(i).integers(0, 9, 100) for i in range(500)]
    shown = text(counts)
    assert "30 of 500 clients" in shown
    assert "96-99" in shown


def test_every_client_is_in_the_histogram_of_volumes() -> None:
    volumes = [1, 1, 2, 5, 40, 40, 1000]
    shown = text([np.array([volume]) for volume in volumes]).partition("Clients by volume")[2]
    assert sum(int(line.split()[-1]) for line in shown.splitlines() if line.strip()) == len(volumes)


def test_the_figure_is_written(tmp_path: Path) -> None:
    counts = [np.array([3, 0, 1]), np.array([0, 900, 0])]
    save_figure(counts, tmp_path / "who.png")
    save_figure(counts, tmp_path / "who.pdf")
    assert (tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "who.pdf").read_bytes().startswith(b"%PDF")
