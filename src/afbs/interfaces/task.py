"""What is learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from afbs.metrics import LOSS, Metric
from afbs.types import Dataset, Score, Tallies, UserError


class Task(ABC):
    """What a batch is, what its loss is and what is measured. A frozen dataclass of its settings.

    A batch is samples `x`, as the network is given them, and their labels `y`, both tensors; `model` gives the outputs
    for `x`. Two methods are enough: `loss`, and `measure`.
    """

    @property
    @abstractmethod
    def metrics(self) -> Sequence[Metric]:
        """What is recorded of an evaluation; a plain attribute will do. The first is the one to watch: it decides what
        is best, and tables show it."""

    target: ClassVar[float | None] = None
    """The `evaluation.target` where none is set."""

    native: ClassVar[bool] = False
    """Whether the loss is the mean cross-entropy over classes, which the native kernels have built in."""

    @abstractmethod
    def loss(self, model: Any, x: Any, y: Any) -> Any:
        """The mean loss over a batch, as a tensor of no dimension. Its gradient is what a client follows."""

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        """For each name a tensor with one number a sample (or a token, or whatever counts); their means are recorded.

        `loss` need not be among them.
        """
        return {}

    def score(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """A number for each of `metrics`, made of the means over all samples; as they are, unless something is made of
        them: a root, say."""
        return means

    def sizes(self, dataset: Dataset) -> tuple[tuple[int, ...], int]:
        """The shape of one sample as a network is given it, and how many numbers it gives for each."""
        wide = int(np.prod(dataset.train_y.shape[1:]))
        return tuple(dataset.train_x.shape[1:]), dataset.classes or wide

    def check(self, dataset: Dataset) -> None:  # noqa: B027 - most take whatever there is
        """Refuses data that the task cannot be done with, by a UserError."""

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:  # noqa: B027 - only a task knows
        """Refuses a network whose outputs for two samples do not fit the task, by a UserError."""

    # what `measure` and `score` are for; a task that adds up more than numbers has its own

    def tally(self, model: Any, x: Any, y: Any) -> Tallies:
        """What is added up over batches: of each number its sum, and how many there were."""
        found: Any = self.measure(model, x, y)
        if not isinstance(found, Mapping):
            kind = "nothing" if found is None else f"a {type(found).__name__}"
            raise UserError(f"`task`: {type(self).__name__}.measure must return numbers by their names, got {kind}.")
        totals = {name: self._total(name, values) for name, values in found.items()}
        if LOSS.name not in totals and any(metric.name == LOSS.name for metric in self.metrics):
            totals[LOSS.name] = np.array([float(self.loss(model, x, y)) * len(x), len(x)])
        return totals

    def conclude(self, totals: Tallies) -> Score:
        """What those come to."""
        return Score(self.score({name: float(total[0] / max(1, total[1])) for name, total in totals.items()}))

    def _total(self, name: str, values: Any) -> NDArray[np.float64]:
        if not getattr(values, "ndim", 0):
            raise UserError(
                f"`task`: {type(self).__name__}.measure must give one number a sample for {name!r}, not their mean or "
                "sum: that is taken over all batches."
            )
        values = values.detach().double().cpu().numpy() if hasattr(values, "detach") else np.asarray(values, np.float64)
        return np.array([values.sum(), values.size])
