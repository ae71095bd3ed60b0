"""A digest is small and leaves nothing out that would change the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from afbs.record import reader
from afbs.report.digest import digest
from afbs.report.load import compared
from afbs.report.measures import OTHERS, thin
from afbs.report.payload import payload
from synthetic import columns, write_small


def test_thinning_keeps_ends_and_extremes() -> None:
    x = np.arange(10_000.0)
    y = np.sin(x / 700)
    y[1234], y[8765] = 9.0, -9.0
    kept = thin(x, y, 400)
    assert len(kept) <= 400
    assert {0, 9_999, 1234, 8765} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_few_points_are_all_kept() -> None:
    assert thin(np.arange(5.0), np.array([1.0, np.nan, 3.0, 2.0, 1.0]), 10).tolist() == [0, 1, 2, 3, 4]


def test_staleness_is_counted_apart_for_kept_and_dropped(tmp_path: Path) -> None:
    step = {
        "version": 1,
        "time": 5.0,
        "used": columns((1, 0, 90), (2, 2, 80), weights=[0.5, 0.5]),
        "dropped": columns((3, 2, 10), (4, 3, 10)),
    }
    kept, dropped = digest(reader.read(write_small(tmp_path / "run", [0.5], steps=[step]))).staleness
    assert kept.tolist() == [1, 0, 1, 0]
    assert dropped.tolist() == [0, 0, 1, 1]


def test_the_flow_is_a_mean_a_step_by_cluster(tmp_path: Path) -> None:
    """Two steps in one bin: cluster 0 keeps 2 and 0, cluster 1 keeps 0 and 1 and loses 1 and 0."""
    steps = [
        {
            "version": 1,
            "time": 0.0,
            "used": columns((0, 0, 9), (2, 0, 9), weights=[1, 1]),
            "dropped": columns((1, 1, 1)),
        },
        {"version": 2, "time": 0.1, "used": columns((3, 0, 9), weights=[1]), "dropped": {}},
    ]
    about = {"clients": {"id": [0, 1, 2, 3], "examples": [9, 1, 9, 9], "cluster": [0, 1, 0, 1], "latency": None}}
    flow = digest(reader.read(write_small(tmp_path / "run", [0.5], steps=steps, meta=about))).flow
    assert flow["clusters"] == [0, 1]
    assert flow["kept"][0][0] == 1.0
    assert flow["kept"][1][0] == 0.5
    assert flow["dropped"][0][0] == 0.0
    assert flow["dropped"][1][0] == 0.5


def test_latency_is_measured_where_it_was_not_written(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.5], meta={"clients": {"id": [7], "examples": [3], "cluster": None}})
    with (folder / "events.jsonl").open("a") as file:
        for order, (start, finish) in enumerate([(0.0, 10.0), (20.0, 50.0)]):
            file.write(f'{{"event":"dispatch","time":{start},"client":7,"version":0,"sequence":{order}}}\n')
            about = '"client":7,"base_version":0,"version":0,"examples":3'
            file.write(f'{{"event":"arrival","time":{finish},{about},"order":{order}}}\n')
    assert digest(reader.read(folder)).clients["latency"].tolist() == [20.0]


def test_a_sample_of_many_clients_keeps_those_that_never_counted(tmp_path: Path) -> None:
    ids = list(range(1000))
    step = {"version": 1, "time": 1.0, "used": columns((1, 0, 9), weights=[1.0]), "dropped": columns((500, 3, 1))}
    about = {"clients": {"id": ids, "examples": ids, "cluster": ids, "latency": ids}}
    who = digest(reader.read(write_small(tmp_path / "run", [0.5], steps=[step], meta=about)), clients=50).clients
    assert len(who["id"]) == 50
    assert who["total"] == 1000
    assert 500 in who["id"]


def test_what_a_reader_should_know_is_remarked(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.5])
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event": "resume", "version": 0}\n{"event": "ste')
    remarks = digest(reader.read(folder)).remarks
    assert "1 unreadable line skipped" in remarks
    assert "resumed 1 time" in remarks


def test_a_long_staleness_histogram_is_drawn_in_wider_bars_and_loses_nothing(tmp_path: Path) -> None:
    rows = [(client, client * 3, 9) for client in range(1000)]
    step = {"version": 1, "time": 1.0, "used": columns(*rows, weights=[1.0] * 1000), "dropped": {}}
    (arm,) = payload(compared([write_small(tmp_path / "run", [0.5], steps=[step])]).arms, [])["arms"]
    assert len(arm["kept"]) <= 400
    assert sum(arm["kept"]) == 1000
    assert arm["bar"] == 8


def test_rare_clusters_are_drawn_together_and_none_is_left_out(tmp_path: Path) -> None:
    """Twenty clusters of one update each: eleven have their own colour, nine share one."""
    ids = list(range(20))
    step = {"version": 1, "time": 1.0, "used": columns(*((i, 0, 9) for i in ids), weights=[1.0] * 20), "dropped": {}}
    about = {"clients": {"id": ids, "examples": [9] * 20, "cluster": ids, "latency": None}}
    flow = digest(reader.read(write_small(tmp_path / "run", [0.5], steps=[step], meta=about))).flow
    assert flow["clusters"] == [*range(11), OTHERS]
    assert sum(float(row[0]) for row in flow["kept"]) == 20
    assert flow["kept"][-1][0] == 9
