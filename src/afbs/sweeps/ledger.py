"""`sweep.json`: which cells a sweep has, what they cost so far, and which failed. Their folders say the rest."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self, final

from afbs.record.reader import is_done, is_run
from afbs.record.writer import replace_file
from afbs.registry import short
from afbs.sweeps.cells import Cell
from afbs.types import RunError, UserError
from afbs.version import VERSION

_LONGEST = 200
"""Of a folder's name; file systems allow 255 bytes."""


@final
class Ledger:
    """The folder of a sweep, claimed by one process at a time."""

    def __init__(self, folder: Path, name: str, cells: Sequence[Cell]):
        self.folder = folder
        self._name = name
        self._cells = {cell.id: cell for cell in cells}
        self._failed: dict[str, str] = {}
        self.costs: dict[str, float] = {}
        self._under_way: dict[str, float] = {}
        self._others: dict[str, Any] = {}
        self._lock = claim(folder / "cells", folder / "sweep.lock")
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.close()

    def place(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.id

    def is_done(self, cell: Cell) -> bool:
        place = self.place(cell)
        return is_run(place) and is_done(place)

    @property
    def failed(self) -> dict[str, str]:
        """By the cell's id, a sentence."""
        return dict(self._failed)

    def spending(self, key: str, cpu: float) -> None:
        """Processor seconds of the cell's process so far: if everything is killed now, they were used all the same."""
        self._under_way[key] = cpu

    def spent(self, key: str, cpu: float) -> None:
        """Processor seconds of the cell's process, which has ended; costs are over all times that it was taken up."""
        self._under_way.pop(key, None)
        self.costs[key] = self.costs.get(key, 0.0) + cpu

    def fails(self, key: str, text: str) -> None:
        self._failed[key] = text

    def write(self) -> None:
        rows = {
            key: {
                "name": cell.name,
                "arm": cell.arm,
                "seed": cell.seed,
                "digest": cell.digest,
                "done": self.is_done(cell),
                "cpu_seconds": round(self.costs.get(key, 0.0) + self._under_way.get(key, 0.0), 3),
                **({"failed": self._failed[key]} if key in self._failed else {}),
            }
            for key, cell in self._cells.items()
        }
        content = {"name": self._name, "afbs": VERSION, "cells": {**self._others, **rows}}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        try:
            replace_file(self.folder / "sweep.json", text.encode())
        except OSError as error:
            raise RunError(
                f"Could not write to {self.folder}: {error.strerror}. The same command continues."
            ) from error

    def _read(self) -> None:
        """What cells cost before; a damaged file costs no more than that knowledge."""
        with suppress(OSError, ValueError, AttributeError, TypeError):
            known: dict[str, Any] = json.loads((self.folder / "sweep.json").read_text())
            self._others = {key: row for key, row in known["cells"].items() if key not in self._cells}
            for key, row in known["cells"].items():
                if key in self._cells and row.get("cpu_seconds"):
                    self.costs[key] = float(row["cpu_seconds"])


def folder_of(name: str) -> Path:
    """Where a sweep of this name is kept, unless it is told where."""
    plain = name.isprintable() and Path(name).name == name != ".." and len(os.fsencode(name)) <= _LONGEST
    if not plain:
        raise UserError(
            f"`sweep.name` must be a name that a folder can have, without slashes and of at most {_LONGEST} bytes, got "
            f"{short(name)}."
        )
    return Path("sweeps") / name


def claim(folder: Path, lock: Path) -> IO[bytes]:
    """Makes a folder and takes it for this process, until what is given back is closed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise UserError(f"The sweep's folder {folder.parent} cannot be made: {error.strerror}.") from error
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(f"{lock.parent} is being swept by another process; that one is not over yet.") from None
    except OSError:
        pass  # a file system without locks
    return file
