"""docs/configuration.md is written by hand, to be read; what it says of names and defaults is held to the classes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from afbs import manual, registry
from afbs.config import Evaluation, Record, RunSettings
from afbs.manual import Setting
from afbs.types import Training

TEXT = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## `\[(\w+)\]`\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))
PARTS = ("algorithm", "availability", "clusters", "data", "executor", "latency", "model", "partition", "transport")
TABLES = {"run": RunSettings, "training": Training, "evaluation": Evaluation, "record": Record}
DEFAULT = re.compile(r"`(\w+)` (`?\"[^\"]*\"`?|-?[\d.e+-]*\d|inf|true|false)(?=[,:; )]|$)")


def rows(table: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[table].splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r" \| ", line.strip("| "))] for line in lines]


def agrees(said: str, setting: Setting) -> bool:
    said = said.strip("`")
    try:
        return float(said) == float(setting.default)
    except ValueError:
        return said in (setting.default, setting.default.strip('"'))


@pytest.mark.parametrize("table", PARTS)
def test_every_part_is_there_with_every_setting_and_its_default(table: str) -> None:
    told = {name: row[1] for row in rows(table) for name in re.findall(r"`(\w+)`", row[0])}
    assert set(told) == set(registry.names(table))
    for name, text in told.items():
        settings = {each.name: each for each in manual.settings(registry.find(table, name))}
        for setting in settings:
            assert f"`{setting}`" in text or (name == "none" and setting == "number"), (name, setting)
        for setting, default in DEFAULT.findall(text):
            assert agrees(default, settings[setting]), (name, setting, default)


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_of_the_other_tables_is_there_with_its_default(table: str) -> None:
    told = {row[0].strip("`"): row[1] for row in rows(table)}
    settings = {each.name: each for each in manual.settings(TABLES[table])}
    assert set(told) == set(settings)
    for name, default in told.items():
        assert agrees(default, settings[name]), (name, default)
