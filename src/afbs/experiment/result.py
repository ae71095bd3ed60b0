"""A run as a notebook sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from afbs.metrics import Metric
from afbs.record.final import final_model
from afbs.record.reader import read
from afbs.record.recorded import Recorded
from afbs.types import Vector

if TYPE_CHECKING:
    from torch import nn


@final
@dataclass(frozen=True)
class Result:
    """What a run found, read from its folder. A run that is still going, or was killed, has what it has so far."""

    record: Recorded
    """Everything the folder says."""

    @classmethod
    def open(cls, folder: str | Path) -> Result:
        return cls(read(folder))

    @property
    def folder(self) -> Path:
        return self.record.folder

    @property
    def done(self) -> bool:
        return self.record.result is not None

    @property
    def metric(self) -> Metric:
        """The one that `best`, `final` and `time_to` are about: the first that the task measures."""
        return self.record.metric

    @property
    def best(self) -> float:
        return self.record.best

    @property
    def final(self) -> float:
        return self.record.final

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the first evaluation as good as `target` or better, or None if there was none."""
        return self.record.time_to(target)

    @property
    def history(self) -> Any:
        """One row an evaluation (a pandas DataFrame): virtual seconds, version, each metric, real seconds."""
        import pandas as pd

        evals = self.record.evals
        values = {metric.name: evals.of(metric.name) for metric in self.record.metrics}
        return pd.DataFrame({"time": evals.time, "version": evals.version, **values, "wall": evals.wall})

    @property
    def fairness(self) -> Any:
        """One row each time that clients were tested on what they hold out (a pandas DataFrame): virtual seconds,
        version, clients, and of the watched metric the mean, that of the worst tenth, and the spread."""
        import pandas as pd

        name = self.metric.name
        rows = [
            {"time": said.time, "version": said.version, "clients": said.clients, **said.values.get(name, {})}
            for said in self.record.fairness
        ]
        return pd.DataFrame(rows, columns=["time", "version", "clients", "mean", "worst", "spread"])

    @property
    def told(self) -> Any:
        """One row a used update (a pandas DataFrame): the version it made, its client, and what its training function
        returned."""
        import pandas as pd

        updates, steps = self.record.updates, self.record.steps
        version = steps.version[updates.step]
        rows = pd.DataFrame({"version": version, "client": updates.client, **self.record.told})
        return rows[updates.used].reset_index(drop=True)

    @property
    def params(self) -> Vector:
        """The final model as one flat vector."""
        return final_model(self.folder, self.record.result)

    def model(self, *, model: Any = None) -> nn.Module:
        """The final model as the network that went in; `afbs.model` says when `model` must be given again."""
        from afbs.experiment import exporting

        return exporting.model(self, model=model)

    def summary(self) -> dict[str, Any]:
        """One row of a comparison."""
        record, result = self.record, self.record.result or {}
        return {
            "name": record.name,
            "algorithm": record.algorithm,
            "seed": record.seed,
            f"best_{self.metric.name}": self.best,
            f"final_{self.metric.name}": self.final,
            "time_to_target": None if record.target is None else self.time_to(record.target),
            "versions": result.get("versions"),
            "trained": result.get("jobs", {}).get("trained"),
            "dropped": result.get("updates", {}).get("dropped"),
            "wall": result.get("wall", {}).get("total"),
            "folder": str(self.folder),
        }


def load(folder: str | Path) -> Result:
    """A run from its folder."""
    return Result.open(folder)
