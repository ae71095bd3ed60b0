"""What a sweep found: a row a cell, a row an arm, and what failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from afbs.experiment.result import Result
from afbs.metrics import Metric
from afbs.sweeps.cells import Cell
from afbs.sweeps.statistics import Row, rows

Measure: TypeAlias = Callable[[Result], float | None]
"""A number of a finished run, for a column of one's own."""
TIME = "time_to_target"


def measures_of(metric: Metric) -> tuple[str, ...]:
    """The columns of every sweep whose runs watch this metric."""
    return (f"best_{metric.name}", f"final_{metric.name}", TIME)


@dataclass(frozen=True)
class Outcome:
    """Everything a sweep found. `failed` has a sentence for each cell that did not end, by its name."""

    name: str
    folder: Path
    everybody: Sequence[Cell]
    failed: Mapping[str, str]
    baseline: str | None = None
    metric: str = "final"
    test: Literal["t", "wilcoxon"] = "t"
    columns: Mapping[str, Measure] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    """What a search found: `best` settings by arm, and its `trials`."""

    @property
    def watched(self) -> Metric:
        """What the runs are about."""
        return self.everybody[0].config.task.metrics[0]

    @property
    def chosen(self) -> str:
        """The column by which arms are ranked and tested."""
        return f"{self.metric}_{self.watched.name}" if self.metric in ("best", "final") else self.metric

    @cached_property
    def results(self) -> dict[str, Result]:
        """The runs that ended, by the id of their cell."""
        places = {cell.id: self.folder / "cells" / cell.id for cell in self.everybody}
        opened = {key: Result.open(place) for key, place in places.items() if (place / "result.json").exists()}
        return {key: result for key, result in opened.items() if result.done}

    @cached_property
    def cells(self) -> Any:
        """One row a cell that ended (a pandas DataFrame): what a comparison shows, and `columns`."""
        import pandas as pd

        table = [
            {
                **self.results[cell.id].summary(),
                **{name: number(self.results[cell.id]) for name, number in self.columns.items()},
                "cell": cell.id,
                "name": cell.name,
                "arm": cell.arm,
                "sha256": (self.results[cell.id].record.result or {}).get("sha256"),
            }
            for cell in self.everybody
            if cell.id in self.results
        ]
        return pd.DataFrame(table).set_index("cell") if table else pd.DataFrame()

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are averaged over seeds."""
        return (*measures_of(self.watched), *self.columns)

    def smaller(self, measure: str) -> bool:
        """Whether less of it is better; of a column of one's own nothing is known but that it is a number."""
        return measure == TIME or (measure in measures_of(self.watched) and self.watched.better == "less")

    def rows(self, measure: str) -> dict[str, Row]:
        """An arm's mean, deviation, rank and test in one of the `measures`."""
        if not len(self.cells):
            return {}
        values: dict[str, dict[int, float]] = {}
        for arm, seed, value in zip(self.cells["arm"], self.cells["seed"], self.cells[measure], strict=True):
            values.setdefault(arm, {})[seed] = math.nan if value is None else float(value)
        baseline = self.baseline if self.baseline in values else None
        return rows(values, baseline, self.test, smaller=self.smaller(measure))

    @cached_property
    def table(self) -> Any:
        """One row an arm (a pandas DataFrame), in the order in which they were written: for each measure the mean and
        the standard deviation over seeds; for the metric the mean rank, and against the baseline difference and p."""
        import pandas as pd

        by_measure = {measure: self.rows(measure) for measure in self.measures}
        chosen = by_measure[self.chosen]
        table = []
        for arm, row in chosen.items():
            line: dict[str, Any] = {"arm": arm, "seeds": int((self.cells["arm"] == arm).sum())}
            for measure, found in by_measure.items():
                line |= {measure: found[arm].mean, f"{measure}_sd": found[arm].deviation}
            line |= {"rank": row.rank, "difference": row.difference, "p": row.p}
            table.append(line)
        return pd.DataFrame(table).set_index("arm") if table else pd.DataFrame()
