"""Whatever is written into a setting, a part refuses it with a sentence or works: no traceback, no warning, no hang."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from afbs.config import TABLES
from afbs.experiment.running import folder_name
from afbs.types import UserError
from odd import ODD, odd
from uses import CASES, HOME, SETTINGS, USES, choices, fields, files, held, loaded

_NESTED = {"grid": "training.lr", "alternatives": "mine", "search": "space", "space": "training.lr"}
"""Settings that are tables of whatever is chosen."""

_PATHS = ("training.lr", "run.seed", "algorithm.name", "model.hidden", "evaluation", "name")


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    kind, name = draw(st.sampled_from(CASES))
    known = fields(kind, name) or ["nothing"]
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    return kind, name, {setting: draw(values(kind, name, setting)) for setting in chosen}


def values(kind: str, name: str, setting: str) -> st.SearchStrategy[Any]:
    """Something odd; where words are to choose from, mostly one of them, so that what depends on it is tried."""
    if setting in _NESTED:
        return nested(setting)
    known = choices(kind, name, setting)
    return st.one_of(st.sampled_from(known), st.sampled_from(known), odd) if known else odd


def nested(setting: str) -> st.SearchStrategy[Any]:
    """Something odd, or a table of odd things."""
    paths = st.one_of(st.just(_NESTED[setting]), st.text(max_size=5), st.sampled_from(_PATHS))
    several = st.lists(odd, max_size=2)
    inside = st.dictionaries(st.sampled_from(("low", "high", "log", "step", "training.lr", "x")), odd, max_size=4)
    return st.one_of(odd, st.dictionaries(paths, st.one_of(odd, several, inside), max_size=2))


def named(tables: dict[str, Any]) -> None:
    """There is a sentence, or a run of it could have a folder."""
    said, folder = "", Path()
    try:
        folder = HOME / folder_name(loaded(tables).name)
    except UserError as error:
        said = str(error)
    assert said.endswith((".", "?")) or folder.parent == HOME
    folder.exists()  # raises if it cannot be a name


@pytest.fixture(autouse=True, scope="module")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFBS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("AFBS_DATA", str(tmp_path_factory.mktemp("data")))  # published data are not here
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(tmp_path_factory.mktemp("here"))
        files()
        yield
    shutil.rmtree(HOME, ignore_errors=True)


def test_every_table_has_a_use() -> None:
    assert {*TABLES, *SETTINGS} == {*USES}


def single_settings() -> list[tuple[str, str, str]]:
    return [(kind, name, setting) for kind, name in CASES for setting in fields(kind, name)]


@pytest.mark.parametrize(("kind", "name", "setting"), single_settings(), ids=str)
def test_every_setting_takes_or_refuses_every_odd_value(kind: str, name: str, setting: str) -> None:
    for value in ODD:
        held(kind, name, {setting: value})


@pytest.mark.parametrize("table", [*TABLES, "name", "sweep", "nothing"])
def test_every_table_may_be_something_else(table: str) -> None:
    for value in ODD:
        for chosen in (value, {"name": value}, {value: 1} if isinstance(value, str) else {"nothing": value}):
            named({table: chosen})


fuzz = settings(max_examples=300, suppress_health_check=list(HealthCheck), print_blob=False)


@fuzz
@given(cases())
@example(("availability", "windows", {"period": 1.0, "share": 1e-6}))
@example(("partition", "clustered", {"clients": 300, "clusters": 300, "alpha": 5e-324}))
@example(("sweep.search", "", {"sampler": "qmc", "seed": 2**62}))
def test_several_odd_settings_at_once_are_taken_or_refused(case: tuple[str, str, dict[str, Any]]) -> None:
    held(*case)


@pytest.mark.long
@settings(fuzz, max_examples=20_000)
@given(cases())
def test_many_more_odd_settings_are_taken_or_refused(case: tuple[str, str, dict[str, Any]]) -> None:
    held(*case)
