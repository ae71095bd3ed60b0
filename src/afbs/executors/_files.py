"""A workload whose arrays workers map instead of copying."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from afbs.clients.workload import Workload
from afbs.data import file_of
from afbs.types import UserError

_ARRAYS = ("train_x", "train_y", "test_x", "test_y")


@final
class Shared:
    """Where an array is a whole `.npy` file already, workers map that file. Otherwise it is written to a file without a
    name, which is gone with this process however it ends; workers reach it through this process's open files."""

    def __init__(self, workload: Workload):
        self._open = ExitStack()
        data = workload.dataset
        files: Any = {name: self._mapped(name, getattr(data, name)) for name in _ARRAYS}
        self.workload = replace(workload, dataset=replace(data, owners=None, **files))

    def close(self) -> None:
        self._open.close()

    def _mapped(self, name: str, array: NDArray[Any]) -> _File:
        file = file_of(array)
        if file is not None:
            return _File(str(file))
        try:
            return _File(self._written(name, array))
        except OSError as error:
            self.close()
            raise UserError(f"The data could not be written where the workers can map it: {error}.") from error

    def _written(self, name: str, array: NDArray[Any]) -> str:
        if Path(f"/proc/{os.getpid()}/fd").is_dir():
            file: IO[bytes] = self._open.enter_context(tempfile.TemporaryFile(prefix="afbs-"))  # noqa: SIM115
            np.save(file, array, allow_pickle=False)
            file.flush()
            return f"/proc/{os.getpid()}/fd/{file.fileno()}"
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="afbs-")))
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
        return str(folder / f"{name}.npy")


@final
class _File:
    """Pickles as a path and unpickles as the memory-mapped array."""

    def __init__(self, path: str):
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return np.load, (self._path, "r")
