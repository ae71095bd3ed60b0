"""A run planned by a real algorithm is read back as it was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from afbs.record import reader
from synthetic import write_run


@pytest.mark.parametrize("algorithm", ["afbs", "fedbuff", "fedavg"])
def test_counts_agree_with_the_result(tmp_path: Path, algorithm: str) -> None:
    run = reader.read(write_run(tmp_path / "run", algorithm))
    assert run.result is not None
    assert run.result["versions"] == len(run.steps.version)
    assert run.result["updates"]["used"] == run.updates.used.sum()
    assert run.result["updates"]["dropped"] == (~run.updates.used).sum()
    assert run.result["updates"]["arrived"] == run.arrivals
    assert run.result["best"] == run.best
    assert run.result["time_to_target"] == run.time_to(0.5)


def test_a_killed_run_reads_without_its_torn_line(tmp_path: Path) -> None:
    run = reader.read(write_run(tmp_path / "run", ended=False))
    assert run.result is None
    assert run.end is None
    assert run.unreadable == 1
    assert len(run.evals.of("accuracy")) > 30
