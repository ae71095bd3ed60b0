"""Whatever is written into a setting, a part refuses it with a sentence or works: no traceback, no warning, no hang."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import tempfile
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from afbs import registry
from afbs.algorithms.fedbuff import FedBuff
from afbs.config import Config, Evaluation, Record, RunSettings, load
from afbs.experiment import schedule
from afbs.seeds import Key
from afbs.types import ClientInfo, Stopped, Training, UserError, Waiting

LABELS = np.arange(300) % 5
CLIENTS = [ClientInfo(client, 10 * client + 1) for client in range(6)]
ROOT = Key.root(0, "test")
HOME = Path(tempfile.gettempdir()) / f"afbs-fuzz-{os.getpid()}"
TABLES: dict[str, type] = {"run": RunSettings, "evaluation": Evaluation, "training": Training, "record": Record}
PARTS = [(kind, name) for kind in ("partition", "latency", "availability") for name in registry.names(kind)]
SOURCES = [("data", name) for name in ("npz", "images", "text")]

_NUMBERS = (0, 1, 2, 3, 7, 299, 300, 301, 10**6, 10**9, 2**31, 2**62, 2**63 - 1, 2**63, 10**30, 10**5000)
_FLOATS = (0.0, 5e-324, 1e-300, 1e-9, 1e-6, 0.001, 0.5, 1.0, 1.5, 20.0, 1e3, 1e9, 1e18, 1e300, math.inf)
_TEXTS = ("", "client", "job", "train_x", "\0", "~nobody", "~", ".", "/", "/dev/null", "x" * 300, "é\n", "%s{}", "C:\\")
_OTHERS: tuple[Any, ...] = (
    True,
    False,
    None,
    b"x",
    [],
    [1],
    [[1]],
    {},
    {"a": 1},
    (1, 2),
    date(2024, 1, 1),
    1j,
    object(),
    np.float64(2.0),
)
ODD = [*_NUMBERS, *(-n for n in _NUMBERS), *_FLOATS, *(-x for x in _FLOATS), math.nan, *_TEXTS, *_OTHERS]
odd = st.one_of(
    st.sampled_from(range(len(ODD))).map(lambda place: ODD[place]),  # by place: some cannot be printed
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.floats(0, 1),
    st.integers(0, 400),
    st.text(max_size=5),
)


@cache
def files() -> dict[str, str]:
    """One good file or folder for each part that needs a path."""
    folder = HOME
    folder.mkdir()
    (folder / "latency.csv").write_text("client,start,duration\n" + "".join(f"{c},{c},9\n" for c in range(6)))
    (folder / "availability.csv").write_text("client,start,end\n" + "".join(f"{c},{c},99\n" for c in range(6)))
    np.savez(folder / "own.npz", train_x=np.zeros((30, 2)), train_y=np.arange(30) % 3)
    (folder / "own.csv").write_text("text,label\n" + "".join(f"some words {i},{i % 3}\n" for i in range(30)))
    for place in range(12):
        (folder / "images" / str(place % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), place, np.uint8)).save(folder / "images" / str(place % 2) / f"{place}.png")
    names = {"latency": "latency.csv", "availability": "availability.csv", "npz": "own.npz", "text": "own.csv"}
    return {part: str(folder / name) for part, name in {**names, "images": "images"}.items()}


def fields(kind: str, name: str) -> list[str]:
    return [field.name for field in dataclasses.fields(TABLES[kind] if kind in TABLES else registry.find(kind, name))]


def table(kind: str, name: str, chosen: dict[str, Any]) -> dict[str, Any]:
    path = files().get(name if kind == "data" else kind)
    needed = {"path": path} if "path" in fields(kind, name) else {}
    return {kind: {**({"name": name} if name else {}), **needed, **chosen}}


def held(kind: str, name: str, chosen: dict[str, Any]) -> None:
    """Load it, and use it if it loads."""
    said = ""
    try:
        use(kind, load(table(kind, name, chosen)))
    except UserError as error:
        said = str(error)
    assert len(said) < 2000
    assert not said or said.endswith((".", "?"))


def use(kind: str, config: Config) -> None:
    if kind == "data":
        data = config.data.load()
        assert len(data.train_x) == len(data.train_y) > 0
    elif kind == "partition":
        for owners in (None, LABELS):
            split = config.partition.split(LABELS, owners, ROOT)
            assert sorted(np.concatenate(split.indices).tolist()) == list(range(300))
    elif kind == "latency":
        for client in CLIENTS:
            duration = config.latency.duration(client, 1e9, ROOT.child(client.id))
            assert 0 < duration < math.inf
            assert 1e9 + duration > 1e9
        plan(config)
    elif kind == "availability":
        for client in CLIENTS:
            back = config.availability.back(client, 5.0, ROOT.child(client.id))
            assert back >= 5.0
            lost = config.availability.vanishes(client, 5.0, 50.0, ROOT.child(client.id, 0))
            assert lost is None or 5.0 <= lost <= 50.0
            assert config.availability.absence(client, ROOT.child(client.id, 0)) >= 0.0
        plan(config)
    elif kind == "evaluation":
        grid = config.evaluation.grid(1e6)
        assert grid == sorted(grid)
    elif kind == "training":
        assert 0 <= config.training.rate(3, 1e6) < math.inf
    else:
        assert config.run.horizon > 0
        assert config.executor.number >= 1


def plan(config: Config) -> None:
    """Some virtual minutes of it: the clock must move, and the plan must end."""
    short = load(config, {"run": {"virtual_days": 0.005, "in_flight": 3}, "algorithm": FedBuff(buffer_size=2)})
    events = list(islice(schedule(short, CLIENTS), 2000))
    assert len(events) == 2000 or isinstance(events[-1], Stopped)
    times = [event.time for event in events if not isinstance(event, Waiting)]
    assert len(times) == len(events)
    assert times == sorted(times)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    kind, name = draw(st.sampled_from([*PARTS, *SOURCES, *((table, "") for table in TABLES)]))
    known = fields(kind, name) or ["nothing"]
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    return kind, name, {setting: draw(odd) for setting in chosen}


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFBS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    shutil.rmtree(HOME, ignore_errors=True)


def single_settings() -> list[tuple[str, str, str]]:
    return [(kind, name, setting) for kind, name in [*PARTS, *SOURCES] for setting in fields(kind, name)] + [
        (kind, "", setting) for kind in TABLES for setting in fields(kind, "")
    ]


@pytest.mark.parametrize(("kind", "name", "setting"), single_settings(), ids=str)
def test_every_setting_takes_or_refuses_every_odd_value(kind: str, name: str, setting: str) -> None:
    for value in ODD:
        held(kind, name, {setting: value})


fuzz = settings(max_examples=300, suppress_health_check=list(HealthCheck), print_blob=False)


@fuzz
@given(cases())
@example(("availability", "windows", {"period": 1.0, "share": 1e-6}))
@example(("partition", "clustered", {"clients": 300, "clusters": 300, "alpha": 5e-324}))
def test_several_odd_settings_at_once_are_taken_or_refused(case: tuple[str, str, dict[str, Any]]) -> None:
    held(*case)


@pytest.mark.long
@settings(fuzz, max_examples=20_000)
@given(cases())
def test_many_more_odd_settings_are_taken_or_refused(case: tuple[str, str, dict[str, Any]]) -> None:
    held(*case)
