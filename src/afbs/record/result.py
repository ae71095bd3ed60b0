"""A run as a notebook sees it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from afbs.record.reader import Run, read
from afbs.types import UserError, Vector


@final
@dataclass(frozen=True)
class Result:
    """What a run found, read from its folder. A run that is still going, or was killed, has what it has so far."""

    run: Run

    @classmethod
    def open(cls, folder: str | Path) -> Result:
        return cls(read(Path(folder)))

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def done(self) -> bool:
        return self.run.result is not None

    @property
    def best_accuracy(self) -> float:
        return self.run.best_accuracy

    @property
    def final_accuracy(self) -> float:
        return self.run.final_accuracy

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the first evaluation at or above `target`, or None if there was none."""
        return self.run.time_to(target)

    @property
    def history(self) -> Any:
        """One row an evaluation (a pandas DataFrame): virtual seconds, version, accuracy, loss, real seconds."""
        import pandas as pd

        evals = self.run.evals
        columns = ("time", "version", "accuracy", "loss", "wall")
        return pd.DataFrame({name: getattr(evals, name) for name in columns})

    @property
    def params(self) -> Vector:
        """The final model as one flat vector."""
        from safetensors.numpy import load_file

        path = self.folder / "model.safetensors"
        if not path.exists():
            again = f"afbs resume {shlex.quote(str(self.folder))}"
            raise UserError(f"{self.folder} has no final model: the run has not ended. Try: {again}")
        params: Vector = load_file(path)["params"]
        return params

    def summary(self) -> dict[str, Any]:
        """One row of a comparison."""
        result = self.run.result or {}
        updates, jobs = result.get("updates", {}), result.get("jobs", {})
        return {
            "name": self.run.name,
            "algorithm": self.run.algorithm,
            "seed": self.run.seed,
            "best_accuracy": self.best_accuracy,
            "final_accuracy": self.final_accuracy,
            "time_to_target": None if self.run.target is None else self.time_to(self.run.target),
            "versions": result.get("versions"),
            "trained": jobs.get("trained"),
            "dropped": updates.get("dropped"),
            "wall": (result.get("wall") or {}).get("total"),
            "folder": str(self.folder),
        }


def load(folder: str | Path) -> Result:
    """A run from its folder."""
    return Result.open(folder)
