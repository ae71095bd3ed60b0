"""What a number is called that says how good a model is, which way is better, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that says how good a model is: what it is called, and whether more or less of it is better.

    A `share` is between 0 and 1 and shown in percent. `title` is how the name is written in a sentence.
    """

    name: str
    better: Literal["more", "less"] = "more"
    share: bool = False
    unit: str = ""
    title: str = ""

    @property
    def called(self) -> str:
        return self.title or self.name.replace("_", " ")

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return 1 if self.better == "more" else -1

    @property
    def axis(self) -> str:
        """The name with its unit, as an axis or a column has it."""
        unit = "%" if self.share else self.unit
        return f"{self.called} ({unit})" if unit else self.called

    def best(self, values: NDArray[np.float64]) -> float:
        """The best of those that are finite; nan if none is."""
        known = values[np.isfinite(values)]
        return float(self.sign * (self.sign * known).max()) if len(known) else nan

    def reached(self, values: NDArray[np.float64], target: float) -> NDArray[np.int64]:
        """The places at which the values are as good as the target, or better."""
        return np.flatnonzero(self.sign * values >= self.sign * target)

    def brief(self, value: float | None) -> str:
        """Name and number where there is little room: `acc. 81.2%`."""
        name = self.called if len(self.called) <= 6 else f"{self.called[:3]}."
        return f"{name} {self.text(value).replace(' %', '%')}"

    def text(self, value: float | None, digits: int = 1) -> str:
        """As people say it: a share in percent with so many digits, other numbers with three more significant ones."""
        if value is None or not isfinite(value):
            return "–"
        if self.share:
            return f"{100 * value:.{digits}f} %"
        return f"{value:.{digits + 3}g}{f' {self.unit}' if self.unit else ''}"


ACCURACY = Metric("accuracy", share=True)
LOSS = Metric("loss", "less")
UNTOLD = (ACCURACY, LOSS)
"""What a run measured whose record does not say."""
