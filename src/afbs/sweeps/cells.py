"""A cell: one configuration of a sweep, under a name of its own and an id that its settings decide."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afbs import registry
from afbs.config import Config
from afbs.data import fingerprint
from afbs.experiment.provenance import digests
from afbs.types import ModelChoice

PARTS = ("data", "partition", "latency", "availability", "clusters", "task", "algorithm", "transport", "executor")
"""The tables that stand for an object."""
_LONGEST = 60


@dataclass(frozen=True)
class Cell:
    """One run of a sweep. Cells of the same `arm` differ by their seed alone, and are one row of its table."""

    name: str
    config: Config
    arm: str

    @cached_property
    def id(self) -> str:
        """The name of its folder: the same whenever the same configuration is given the same name."""
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in self.name)
        while "--" in safe:
            safe = safe.replace("--", "-")
        return f"{safe[:_LONGEST].strip('-.') or 'cell'}-{self.digest[:8]}"

    @cached_property
    def digest(self) -> str:
        """Of everything that decides its result: all settings but those that only say how it is carried out."""
        content = [digests(self.config), _data_in_memory(self.config)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def seed(self) -> int:
        return self.config.run.seed

    @property
    def days(self) -> float:
        return self.config.run.virtual_days


def objects(config: Config) -> dict[str, Any]:
    """The parts that only Python can say: they must travel to whoever runs the configuration, and be given again."""
    found = {table: getattr(config, table) for table in PARTS if _only_in_python(config, table)}
    model: ModelChoice = config.model
    if not isinstance(model.build, str) and registry.path_of(model.build) is None:
        found["model"] = model
    function = config.training.function
    if callable(function) and registry.path_of(function) is None:
        found["training.function"] = function
    return found


def _only_in_python(config: Config, table: str) -> bool:
    part = getattr(config, table)
    named: Mapping[str, Any] = config.tables[table]
    if ":" in named["name"] and registry.path_of(type(part)) is None:
        return True
    return bool(_untold(part, named))


def _untold(part: Any, table: Mapping[str, Any]) -> set[str]:
    """The settings of a part that its table could not hold."""
    if not dataclasses.is_dataclass(part):
        return set()
    fields = [field.name for field in dataclasses.fields(part) if field.init]
    return {name for name in fields if getattr(part, name) is not None and name not in table}


def _data_in_memory(config: Config) -> str:
    """Which data they are, where the settings do not say."""
    source: Any = config.data
    known = dataclasses.is_dataclass(source) and not _untold(source, config.tables["data"])
    return "" if known else fingerprint(source.load())
