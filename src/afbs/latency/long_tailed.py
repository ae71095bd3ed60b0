"""Nearly everybody is quick and somebody is always very slow: a Pareto distribution.

Long-tailed durations are the setting of FedFa (Xu et al. 2024); its exact figures are not known here, so the
parameters are plain ones: at `tail` = 1.5 one job in a hundred takes over twenty times the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, final

from annotated_types import Ge, Gt, Le

from afbs.interfaces import Latency
from afbs.latency._draw import BRIEFEST, LONGEST
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError

_THICKEST = 0.1
"""The smallest tail whose longest draw is still a number."""


@final
@dataclass(frozen=True)
class LongTailed(Latency):
    """From `shortest` to `longest` seconds, with a Pareto tail: a smaller `tail` makes slow clients slower."""

    shortest: Annotated[float, Ge(BRIEFEST), Le(LONGEST)] = 600.0
    """Seconds."""
    tail: Annotated[float, Gt(0)] = 1.5
    """The exponent of the Pareto tail; a smaller one makes slow clients slower."""
    longest: Annotated[float, Gt(0)] = 86_400.0
    """Seconds beyond which a duration is cut off."""
    per: Literal["client", "job"] = "client"
    """Drawn once a client, which then always takes as long, or anew for each job."""

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise UserError(
                f"`latency.shortest` must not be above `latency.longest`, got {self.shortest:g} and {self.longest:g}."
            )
        if self.longest > LONGEST and self.tail < _THICKEST:
            raise UserError(
                f"`latency.tail` must be at least {_THICKEST:g} where `latency.longest` is above {LONGEST:g}, got "
                f"{self.tail:g}: some durations would be endless."
            )

    def duration(self, client: ClientInfo, start: float, key: Key, work: float = 1.0) -> float:
        try:
            usual = min(self.longest, float(self.shortest * (1.0 - key.uniform()) ** (-1.0 / self.tail)))
        except OverflowError:
            usual = self.longest
        return work * usual
