"""`afbs reproduce` with the paper's setting shrunk to a second a run, for tests: `python rehearsal.py table4 …`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from afbs import cli
from afbs.reproduce.spec import Spec

TABLES = Spec.tables


def shrunk() -> Callable[[Spec], Mapping[str, Any]]:
    """The tables of a run on the embedded digits, with few clients."""

    def tables(spec: Spec) -> Mapping[str, Any]:
        real = TABLES(spec)
        return {
            **real,
            "data": {"name": "digits"},
            "model": {"name": "mlp", "hidden": 8},
            "partition": {**real["partition"], "clients": 24, "min_cluster_share": 0.1},
            "training": {**real["training"], "lr": 0.1},
            "run": {**real["run"], "in_flight": 12},
            "evaluation": {**real["evaluation"], "points": 12, "target": 0.5},
        }

    return tables


if __name__ == "__main__":
    Spec.tables = shrunk()  # type: ignore[assignment, method-assign]
    sys.argv = ["afbs", "reproduce", *sys.argv[1:]]
    cli.main()
