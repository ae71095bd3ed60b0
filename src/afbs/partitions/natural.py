"""Clients as the data have them: whoever wrote, took or owns a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from afbs.interfaces import Partition
from afbs.seeds import Key
from afbs.types import Split, UserError


@final
@dataclass(frozen=True)
class Natural(Partition):
    """One client for each owner of training samples, as the data say."""

    def split(self, labels: NDArray[np.int64], owners: NDArray[np.int64] | None, key: Key) -> Split:
        if owners is None:
            raise UserError(
                "`partition.name` = 'natural' needs data that say whose each sample is: an `owners` array in a .npz "
                "file, or `data.owner` or `data.owners` for your texts or images. Any other partition would do too."
            )
        order = np.argsort(owners, kind="stable")
        starts = np.flatnonzero(np.diff(np.asarray(owners)[order])) + 1
        return Split([part.astype(np.int64) for part in np.split(order, starts)])
