"""One data set a file; data in memory: `Arrays`, `from_torch`; which data they are: `fingerprint`, `file_of`."""

from afbs.data._digest import file_of, fingerprint
from afbs.data._memory import Arrays, from_torch

__all__ = ["Arrays", "file_of", "fingerprint", "from_torch"]
