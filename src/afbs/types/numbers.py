"""What names stand for: clients are numbers, models flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ClientId: TypeAlias = int
Vector: TypeAlias = NDArray[np.float32]
"""One whole model, flat."""
Matrix: TypeAlias = NDArray[np.float32]
"""One row an update."""
Memory: TypeAlias = dict[str, NDArray[Any]]
"""What an algorithm's server keeps between two steps besides the model; named, so that a checkpoint can hold it.
Numbers are kept as arrays of no dimension."""
Tallies: TypeAlias = Mapping[str, Any]
"""What a task counted over some samples: numbers and arrays by name. Over more samples they are added."""
Facts: TypeAlias = Mapping[str, Any]
"""What an algorithm found out about the content of updates: numbers, or lists of them."""
