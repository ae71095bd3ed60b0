"""A run as a notebook sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from afbs.record.final import final_model
from afbs.record.reader import read
from afbs.record.recorded import Recorded
from afbs.types import Vector


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
    def best_accuracy(self) -> float:
        return self.record.best_accuracy

    @property
    def final_accuracy(self) -> float:
        return self.record.final_accuracy

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the first evaluation at or above `target`, or None if there was none."""
        return self.record.time_to(target)

    @property
    def history(self) -> Any:
        """One row an evaluation (a pandas DataFrame): virtual seconds, version, accuracy, loss, real seconds."""
        import pandas as pd

        evals = self.record.evals
        columns = ("time", "version", "accuracy", "loss", "wall")
        return pd.DataFrame({name: getattr(evals, name) for name in columns})

    @property
    def params(self) -> Vector:
        """The final model as one flat vector."""
        return final_model(self.folder, self.record.result)

    def summary(self) -> dict[str, Any]:
        """One row of a comparison."""
        record, result = self.record, self.record.result or {}
        return {
            "name": record.name,
            "algorithm": record.algorithm,
            "seed": record.seed,
            "best_accuracy": self.best_accuracy,
            "final_accuracy": self.final_accuracy,
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
