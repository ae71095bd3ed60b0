"""What number belongs to a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Annotated, Any, final

from annotated_types import Ge, Le

from afbs.interfaces import Task
from afbs.metrics import LOSS, Metric
from afbs.types import Dataset, UserError


@final
@dataclass(frozen=True)
class Regression(Task):
    """One number or several a sample, by least squares: RMSE, mean absolute error and R²."""

    shift: Annotated[float, Ge(-1e30), Le(1e30)] = 0.0
    """The network learns (y - shift) / scale; what is measured is in the unit of y."""

    scale: Annotated[float, Ge(1e-30), Le(1e30)] = 1.0
    """About the deviation of y; networks learn numbers around 1 best."""

    unit: str = ""
    """The unit of y, for tables and axes."""

    @property
    def metrics(self) -> Sequence[Metric]:
        return (
            Metric("rmse", "less", unit=self.unit, title="RMSE"),
            LOSS,
            Metric("mae", "less", unit=self.unit, title="mean absolute error"),
            Metric("r2", title="R²"),
        )

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        outputs = model(x)
        return (outputs - self._wanted(y).view_as(outputs)).square().mean()

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        outputs, y = model(x), y.double()
        gap = outputs.double() * self.scale + self.shift - y.view_as(outputs)
        return {"square": gap.square(), "mae": gap.abs(), "loss": (gap / self.scale).square(), "y": y, "yy": y.square()}

    def score(self, means: Mapping[str, float]) -> Mapping[str, float]:
        variance = means["yy"] - means["y"] ** 2
        return {
            "rmse": sqrt(means["square"]),
            "loss": means["loss"],
            "mae": means["mae"],
            "r2": 1 - means["square"] / variance if variance > 0 else 0.0,
        }

    def check(self, dataset: Dataset) -> None:
        if dataset.names:
            names = ", ".join(map(repr, dataset.names[:3]))
            raise UserError(
                f"`task.name` = 'regression' needs labels that are numbers, and those of the data are names ({names}). "
                "'classification' would do."
            )

    def sizes(self, dataset: Dataset) -> tuple[tuple[int, ...], int]:
        """Classes, too, are taken for the numbers that they are."""
        return tuple(dataset.train_x.shape[1:]), prod(dataset.train_y.shape[1:])

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:
        found = model(x)
        shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
        if shape not in {(len(x), outputs), *([(len(x),)] if outputs == 1 else [])}:
            wanted = (len(x), outputs)
            raise UserError(f"`model` must give a number for each label: for {len(x)} samples {wanted}, got {shape}.")

    def _wanted(self, y: Any) -> Any:
        return (y.float() - self.shift) / self.scale
