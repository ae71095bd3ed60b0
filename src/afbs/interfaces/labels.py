"""Which clients are alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from afbs.seeds import Key
from afbs.types import ClientId, Grouping


class LabelMechanism(ABC):
    """How the server learns which clients have alike labels, and what it learns besides.

    One that asks clients something is an `afbs.privacy.halves.TwoHalves`. One that has a method `exposure`
    (`afbs.privacy.exposure`) is attacked by `afbs audit`.
    """

    @abstractmethod
    def group(self, counts: Mapping[ClientId, NDArray[np.int64]], key: Key, most: int = 10) -> Grouping:
        """`counts` are the clients' label counts; the mechanism's file says what of them leaves a client.

        `most` bounds the number of clusters where it is to be chosen: half the buffer, or nothing would be dropped.
        """
