"""`compare`: several configurations side by side, a row each. A small sweep, and like one it goes on when repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from afbs.config import Config, load
from afbs.sweeps.cells import Cell
from afbs.sweeps.outcome import Outcome
from afbs.sweeps.sweeping import Sweep
from afbs.types import RunError


def compare(
    sources: Sequence[Config | Mapping[str, Any] | str | Path],
    *,
    runs: str | Path = "runs",
    progress: bool = True,
    **overrides: Any,
) -> Any:
    """Run several configurations and give a table with a row each (a pandas DataFrame).

    They are run side by side, in `runs/compare-<id>`; what was done there before is not done again.
    """
    configs = [load(source, overrides) for source in sources]
    outcome = compared(configs, runs=runs, progress=progress)
    if outcome.failed:
        raise RunError(complaints(outcome))
    table = outcome.cells.drop(columns=["arm", "sha256"])
    return table.loc[[cell.id for cell in of_configs(configs)]].set_index("name")


def compared(
    configs: Sequence[Config],
    *,
    runs: str | Path = "runs",
    progress: bool = True,
    on_note: Callable[[str], None] | None = None,
) -> Outcome:
    """The same, with everything that a sweep tells."""
    cells = of_configs(configs)
    digest = hashlib.sha256("".join(cell.id for cell in cells).encode()).hexdigest()[:8]
    return Sweep("compare", cells).run(Path(runs) / f"compare-{digest}", progress=progress, on_note=on_note)


def of_configs(configs: Sequence[Config]) -> list[Cell]:
    return [Cell(config.name, config, config.name) for config in configs]


def complaints(outcome: Outcome) -> str:
    """Which cells failed, and why."""
    return "\n".join(f"{name}: {text}" for name, text in outcome.failed.items())
