"""The figures that the paper prints, as they stand in its Tables 2 to 5."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

_DATASETS = {"MNIST": "mnist", "CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "SST2": "sst2"}


class Figure(NamedTuple):
    """One printed figure. `clusters` is 0 where a table has no K; `value` is None where the paper prints a dash."""

    table: str
    method: str
    dataset: str
    clusters: int
    metric: str
    value: float | None


@cache
def published() -> tuple[Figure, ...]:
    """All of them, in the order of the paper."""
    text = resources.files("afbs.reproduce").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(
        Figure(
            row["table"],
            row["method"].lower(),
            _DATASETS[row["dataset"]],
            int(row["K"] or 0),
            row["metric"],
            None if row["value"] == "-" else float(row["value"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def figures(table: str) -> dict[tuple[str, str, int], float | None]:
    """A table's figures by method, data set and number of clusters."""
    return {(each.method, each.dataset, each.clusters): each.value for each in published() if each.table == table}


def target(dataset: str) -> float:
    """The accuracy that Table 4 times."""
    found = figures("4")["target", dataset, 0]
    assert found is not None
    return found
