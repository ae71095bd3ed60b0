"""Label counts with calibrated Gaussian noise: (ε, δ)-differential privacy for one sample of a client.

What leaves the client: its label counts, each with noise N(0, σ²), rounded to whole numbers. The server clips at zero,
normalises and clusters, which costs no privacy. σ is the sensitivity times the analytic Gaussian mechanism's
multiplier (core.calibration): √2 for `replace` (one sample may have had another label; the number of samples is
public, as AFBS needs it), 1 for `add_remove`.

Rounding is free too, and takes away the low bits by which floating-point noise gives away what it hides (Mironov,
*On significance of the least significant bits for differential privacy*, CCS 2012).

What it does not hide: a client's main label. Noise that hides one sample leaves a pile of samples visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from afbs.core.calibration import largest_advantage, noise_multiplier
from afbs.privacy._sketched import Array, Sketched
from afbs.privacy.exposure import Exposure
from afbs.privacy.keys import Secrets, derive, normals
from afbs.privacy.messages import RefusedError
from afbs.seeds import Key

FARTHEST = 8.0
"""In standard deviations: noise goes beyond this once in 10^15 draws."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a client agreed to: so many releases, which together cost no more than (ε, δ)."""

    epsilon: float
    delta: float
    releases: int

    def multiplier(self) -> float:
        """The noise of each release over the sensitivity. r Gaussian releases compose to one with √r less noise."""
        return float(noise_multiplier(self.epsilon, self.delta) * self.releases**0.5)

    def check(self, release: int) -> None:
        """Raises unless the release was planned. Releases are numbered from 0; the same number is the same release."""
        if not 0 <= release < self.releases:
            raise RefusedError(f"the privacy budget was planned for {self.releases} release(s); this would be one more")


@final
@dataclass(frozen=True)
class DifferentiallyPrivate(Sketched):
    """Clients send label counts with noise that hides any one sample, up to a stated ε and δ."""

    budgeted: ClassVar[bool] = True

    number: Annotated[int, Ge(0)] = 1
    """How many clusters; 1 asks nobody anything, 0 chooses."""
    epsilon: Annotated[float, Ge(1e-4), Le(1e3)] = 2.0
    """ε: how much one sample may show; smaller hides more."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5
    """δ: the probability with which that may fail."""
    adjacency: Literal["replace", "add_remove"] = "replace"
    """What is hidden: that a sample had another label, or that it was there at all."""
    releases: Annotated[int, Ge(1), Le(10_000)] = 1
    """How often the budget allows to answer."""

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.releases)

    @property
    def sensitivity(self) -> float:
        """How far one sample can move the counts: √2 if its label changes, 1 if it comes or goes."""
        return 2**0.5 if self.adjacency == "replace" else 1.0

    @property
    def sigma(self) -> float:
        return self.sensitivity * self.budget.multiplier()

    def sketch(self, counts: NDArray[np.int64], secrets: Secrets, release: int) -> Array:
        """The noise follows from the client's own secret, its counts and the release: asking twice tells no more."""
        self.budget.check(release)
        seed = derive(secrets.own + counts.astype("<i8").tobytes(), f"dp/{release}")
        return np.rint(counts + self.sigma * normals(seed, len(counts)))

    def point(self, sketch: Array, examples: int, classes: int) -> Array:
        if sketch.shape != (classes,):
            raise RefusedError(f"the noisy counts must be {classes} numbers, they have the shape {sketch.shape}")
        slack = FARTHEST * self.sigma + 1
        if sketch.min() < -slack or sketch.max() > examples + slack:
            raise RefusedError("the noisy counts are further out than the noise can take them")
        if abs(sketch.sum() - examples) > slack * classes**0.5:
            raise RefusedError("the noisy counts do not add up to the client's number of samples")
        clipped = np.maximum(sketch, 0.0)
        total = clipped.sum()
        return clipped / total if total else np.full(classes, 1 / classes)

    def released(self, classes: int) -> dict[str, Any]:
        public = "the number of samples of each client is public"
        return {
            "what": f"{classes} noisy label counts of each client",
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": f"replace one sample; {public}"
            if self.adjacency == "replace"
            else f"add or remove one sample; {public}, which this adjacency does not cover",
            "sigma": self.sigma,
            "planned_releases": self.releases,
            "largest_advantage": largest_advantage(self.epsilon, self.delta),
            "protects": "any one sample of a client; not the client's main label",
        }

    def exposure(self, table: NDArray[np.int64], key: Key) -> Exposure:
        from afbs.privacy._attack_dp import exposure

        return exposure(self, table, key)
