"""One data set a file; and data that are already in memory: `Arrays`, `from_torch`."""

from afbs.data._fingerprint import fingerprint
from afbs.data._memory import Arrays, from_torch

__all__ = ["Arrays", "fingerprint", "from_torch"]
