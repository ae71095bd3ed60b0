"""`python -m benchmarks.peers.export FILE` writes the data and the clients that all simulators are given.

Random images, or CIFAR-10 where $AFBS_DATA is set.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from afbs.population import populate
from benchmarks import workload


def data() -> Any:
    """For a configuration's `data`."""
    return {"name": "cifar10"} if os.environ.get("AFBS_DATA") else workload.arrays()


def write(path: Path, source: Any) -> None:
    population = populate(workload.config("fedbuff", source))
    dataset = population.dataset
    np.savez(
        path,
        train_x=dataset.train_x,
        train_y=dataset.train_y,
        test_x=dataset.test_x,
        test_y=dataset.test_y,
        shift=dataset.shift,
        scale=dataset.scale,
        members=np.concatenate(population.split.indices),
        sizes=[len(chosen) for chosen in population.split.indices],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.export", description=__doc__)
    parser.add_argument("file", type=Path)
    write(parser.parse_args().file, data())
