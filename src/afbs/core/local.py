"""What an algorithm's clients add to the gradient of their loss, as arithmetic on flat vectors of any library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from afbs.interfaces import LocalRule


@final
@dataclass(frozen=True)
class Proximal(LocalRule):
    """Adds (ρ/2)‖θ − w‖² to the loss: the client stays near the model w it was sent."""

    rho: float

    def gradient(self, params: Any, start: Any, state: Any) -> Any:
        return self.rho * (params - start)


@final
@dataclass(frozen=True)
class Dynamic(LocalRule):
    """Adds (α/2)‖θ − w‖² − ⟨g, θ⟩ to the loss; g, zero at first, is the client's own and follows its drift."""

    stateful: ClassVar[bool] = True
    alpha: float

    def gradient(self, params: Any, start: Any, state: Any) -> Any:
        return self.alpha * (params - start) - state

    def finish(self, state: Any, start: Any, end: Any) -> Any:
        return state - self.alpha * (end - start)
