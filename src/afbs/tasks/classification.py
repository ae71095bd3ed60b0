"""Which of some classes a sample belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

import numpy as np
from annotated_types import Ge, Le

from afbs.interfaces import Task
from afbs.metrics import ACCURACY, LOSS, Metric
from afbs.types import Dataset, Score, Tallies, UserError


@final
@dataclass(frozen=True)
class Classification(Task):
    """One class a sample, by cross-entropy: accuracy, macro F1, and the accuracy of each class."""

    native: ClassVar[bool] = True
    target: ClassVar[float | None] = 0.9

    top: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """Also measures how often the true class is among so many of the highest scores; 0: it does not."""

    @property
    def metrics(self) -> Sequence[Metric]:
        among = Metric(f"top{self.top}", share=True, title=f"top-{self.top} accuracy")
        return (ACCURACY, LOSS, Metric("f1", share=True, title="F1"), *([among] if self.top else []))

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        from torch.nn.functional import cross_entropy

        return cross_entropy(model(x), y)

    def check(self, dataset: Dataset) -> None:
        if not dataset.classes:
            raise UserError(
                "`task.name` = 'classification' needs labels that are classes, and those of the data are numbers. "
                "'regression' would do."
            )
        if self.top >= dataset.classes:
            raise UserError(f"`task.top` must be below the number of classes ({dataset.classes}), got {self.top}.")

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:
        scores, wanted = model(x), (len(x), outputs)
        found = tuple(scores.shape) if hasattr(scores, "shape") else type(scores).__name__
        if found != wanted:
            raise UserError(f"`model` must give a score for each class: for {len(x)} samples {wanted}, got {found}.")

    def tally(self, model: Any, x: Any, y: Any) -> Tallies:
        """`confusion[true, predicted]`, and the sum of the losses."""
        import torch
        from torch.nn.functional import cross_entropy

        scores, y = model(x).cpu(), y.cpu()
        classes = scores.shape[1]
        # A model that has diverged predicts class 0: argmax of NaN is not a class.
        guess = scores.nan_to_num().argmax(1).clamp_(max=classes - 1)
        confusion = torch.bincount(y * classes + guess, minlength=classes * classes).view(classes, classes)
        totals = {
            "confusion": confusion.numpy(),
            "loss": np.float64(cross_entropy(scores, y, reduction="sum")),
        }
        if self.top:
            among = (scores.nan_to_num().topk(self.top).indices == y[:, None]).any(1)
            totals[f"top{self.top}"] = np.float64(among.sum())
        return totals

    def conclude(self, totals: Tallies) -> Score:
        confusion = totals["confusion"]
        total, right, true = max(1, int(confusion.sum())), np.diag(confusion), confusion.sum(axis=1)
        values = {
            "accuracy": int(np.trace(confusion)) / total,
            "loss": float(totals["loss"]) / total,
            "f1": _macro_f1(right, true, confusion.sum(axis=0)),
        }
        if self.top:
            values[f"top{self.top}"] = float(totals[f"top{self.top}"]) / total
        shares = right / np.maximum(true, 1)
        per_class = [round(float(share), 4) if number else None for share, number in zip(shares, true, strict=True)]
        return Score(values, {"per_class": per_class}, {"confusion": confusion.tolist()})


def _macro_f1(right: Any, true: Any, guessed: Any) -> float:
    """The mean over the classes that occur of 2·right / (true + guessed)."""
    occurs = true > 0
    return float(np.mean(2 * right[occurs] / (true + guessed)[occurs])) if occurs.any() else 0.0
