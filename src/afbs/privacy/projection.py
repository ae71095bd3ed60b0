"""The paper's sketch: Lu et al., *AFBS*, arXiv 2506.12754, "random projection" of the label distribution.

    Y = (1_d A + G) Rᵀ    d noisy copies of the proportions, projected to `width` numbers each    core.sketch

What leaves the client: Y. The server averages its rows and clusters. R is the same for all clients, or distances
between them would mean nothing; it follows from a secret that clients share and the server must not have.

What it is worth: nothing against a server that knows R, and every client knows R. It is a lossy projection, not a
way to keep labels confidential; `afbs audit` measures what it gives away, and `docs/privacy.md` explains.

The paper leaves open: the width (here half the number of labels), R's entries (here N(0, 1/width), so that lengths
are kept on average) and that A are proportions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.core import sketch as sketches
from afbs.privacy._sketched import Array, Sketched
from afbs.privacy.exposure import Exposure
from afbs.privacy.keys import Secrets, derive, normals, read_secret
from afbs.privacy.messages import RefusedError
from afbs.seeds import Key
from afbs.types import UserError

FARTHEST = 10.0
"""In standard deviations of R's entries: no honest sketch has a number beyond this (odds below 1e-20)."""


@final
@dataclass(frozen=True)
class Projection(Sketched):
    """Clients send a random projection of their label proportions. The paper's sketch; not confidential."""

    number: Annotated[int, Ge(0)] = 1
    """How many clusters; 1 asks nobody anything, 0 chooses."""
    width: Annotated[int, Ge(0), Le(4096)] = 0
    """How many numbers a sketch's row has; 0: half the labels."""
    noise: Annotated[float, Ge(0), Le(100)] = 1e-3
    """The standard deviation of what is added to the proportions."""
    secret_file: str = ""
    """The file in which clients find the secret they share."""
    secret_env: str = ""
    """The environment variable that holds it instead."""

    def sketch(self, counts: NDArray[np.int64], secrets: Secrets, release: int) -> Array:
        if secrets.shared is None:
            raise UserError("`clusters.secret_file` or `clusters.secret_env` must say where clients find their secret.")
        classes = len(counts)
        noise = self.noise * normals(derive(secrets.own, f"projection/noise/{release}"), classes, classes)
        return sketches.project(
            sketches.tiled(sketches.proportions(counts), noise), self.projection(secrets.shared, classes)
        )

    def point(self, sketch: Array, examples: int, classes: int) -> Array:
        width = self.columns(classes)
        if sketch.shape != (classes, width):
            raise RefusedError(
                f"the sketch must have {classes} rows of {width} numbers, it has the shape {sketch.shape}"
            )
        bound = FARTHEST * (1 + FARTHEST * self.noise * classes**0.5) / width**0.5
        if np.abs(sketch).max() > bound:
            raise RefusedError("the sketch has numbers larger than any label distribution gives")
        if np.ptp(sketch, axis=0).max() > 2 * FARTHEST * bound * self.noise * classes**0.5 + 1e-9:
            raise RefusedError("the rows of the sketch are not copies of one distribution")
        return sketches.row_mean(sketch)

    def projection(self, secret: bytes, classes: int) -> Array:
        """R, from the secret and the two sizes alone."""
        width = self.columns(classes)
        return np.asarray(normals(derive(secret, f"projection/{classes}/{width}"), width, classes) / width**0.5)

    def columns(self, classes: int) -> int:
        return self.width or sketches.width(classes)

    def shared_secret(self) -> bytes | None:
        return read_secret(self.secret_file, self.secret_env)

    def released(self, classes: int) -> dict[str, Any]:
        given = bool(self.secret_file or self.secret_env)
        return {
            "what": f"{classes} noisy copies of the label proportions of each client, projected to "
            f"{self.columns(classes)} numbers",
            "noise": self.noise,
            "secret": "given to the clients" if given else "follows from the run's seed: for simulation only",
            "protects": "nothing against whoever knows the projection, and every client knows it",
        }

    def exposure(self, table: NDArray[np.int64], key: Key) -> Exposure:
        from afbs.privacy._attack_projection import exposure

        return exposure(self, table, key)
