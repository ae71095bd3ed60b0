"""Workers map the data set; none of them has a copy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def tree(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(descendant for child in children for descendant in tree(int(child)))]


def share(process: int) -> int:
    """The bytes of a process, where a page that n processes share counts as an n-th of a page for each."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    return 0


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is measured as Linux tells it")
@pytest.mark.skipif(
    not (os.environ.get("AFBS_DATA") and (Path(os.environ["AFBS_DATA"]) / "cifar-10-batches-bin").is_dir()),
    reason="there is no cifar-10-batches-bin in $AFBS_DATA",
)
def test_600_clients_of_cifar10_with_2_workers_need_under_2_gigabytes(tmp_path: Path) -> None:
    settings = {"run.virtual_days": "0.05", "executor.workers": "2", "evaluation.points": "3"}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    start = "from afbs.cli import main; main()"
    command = [sys.executable, "-c", start, "run", str(EXAMPLES / "cifar10-afbs.toml"), *options]
    run = subprocess.Popen(
        [*command, "--folder", str(tmp_path / "run")], env={**os.environ, "AFBS_CACHE": str(tmp_path / "cache")}
    )
    peak, mapping = 0, 0
    while run.poll() is None:
        try:
            processes = tree(run.pid)
            peak = max(peak, sum(share(process) for process in processes))
            maps = [Path(f"/proc/{process}/maps").read_text() for process in processes[1:]]
            mapping = max(mapping, sum("train_x.npy" in text for text in maps))
        except (FileNotFoundError, ProcessLookupError):  # one of them has just ended
            pass
        time.sleep(0.2)
    assert run.returncode == 0
    assert mapping >= 2
    assert 0 < peak < 2_000_000_000
